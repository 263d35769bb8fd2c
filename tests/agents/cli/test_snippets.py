"""The configuration of common MCP clients: what is printed, what the README shows, and that it starts the server."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from spade_agents.cli import main
from spade_agents.cli.snippets import client_snippets, snippets_page
from spade_environments import ToolCall
from spade_tools import McpCommand, open_toolset

README = Path(__file__).parents[3] / "README.md"
CATALOGUE = README.parent / "environments/spade_environments/catalogue"
BIN = Path(sys.executable).parent


def servers(page):
    """The servers that the code blocks of a page configure, as a client would read them."""
    for language, text in re.findall(r"```(json|toml)\n(.*?)\n```", page, re.DOTALL):
        read = json.loads(text) if language == "json" else tomllib.loads(text)
        (table,) = read.values()
        yield from table.items()


def printed(capsys, *arguments):
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments, "--configuration"])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out + err


def shown_in_the_readme():
    start, end = "<!-- client configuration -->\n", "\n<!-- end of client configuration -->"
    return README.read_text(encoding="utf-8").partition(start)[2].partition(end)[0]


def test_the_readme_shows_what_the_generator_writes():
    assert shown_in_the_readme() == snippets_page(client_snippets("ticket_desk", ["serve", "ticket_desk"]))


async def test_every_snippet_of_the_readme_starts_the_real_server():
    found = list(servers(shown_in_the_readme()))
    assert len(found) == 3
    assert len({json.dumps([server["command"], server["args"]]) for _, server in found}) == 1
    server = found[0][1]
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    # The program itself is looked for on our PATH, which a test must not change.
    command = McpCommand(command=str(BIN / server["command"]), arguments=tuple(server["args"]), variables=path)
    async with open_toolset(command) as toolset:
        assert "close_ticket" in {tool.name for tool in toolset.tools}
        assert not (await toolset.call(ToolCall(name="get_task", arguments={}))).is_error


def test_what_is_printed_names_this_program_and_every_option(capsys):
    code, out = printed(capsys, "ticket_desk", "--seed", "3", "--mode", "play", "--hint")
    assert code == 0
    for name, server in servers(out):
        assert (name, server["command"]) == ("ticket_desk", str(BIN / "spade"))
        assert server["args"] == ["serve", "ticket_desk", "--seed", "3", "--mode", "play", "--hint"]


async def test_the_printed_configuration_of_run_python_starts_it(capsys):
    code, out = printed(capsys, "run_python")
    assert code == 0
    name, server = next(servers(out))
    assert name == "run_python"
    async with open_toolset(McpCommand(command=server["command"], arguments=tuple(server["args"]))) as toolset:
        call = ToolCall(name="run_python", arguments={"code": "print(6 * 7)"})
        assert (await toolset.call(call)).text.strip() == "42"


@pytest.mark.parametrize(
    "arguments",
    [["no_such_environment"], ["catalogue"], ["ticket_desk", "--hint"], ["run_python", "--transport", "http"]],
)
def test_a_configuration_that_no_server_would_start_with_is_wrong_usage(capsys, arguments):
    assert printed(capsys, *arguments)[0] == 2


def test_a_name_with_quotes_and_dots_survives_every_form():
    page = snippets_page(client_snippets('it"s.v2', ["serve", 'a "b".py']))
    assert [(name, server["args"][1]) for name, server in servers(page)] == [('it"s.v2', 'a "b".py')] * 3


def test_a_file_is_named_by_its_whole_path(capsys, monkeypatch, tmp_path):
    for kind in (".py", ".spec.json"):
        (tmp_path / f"own{kind}").write_text((CATALOGUE / f"ticket_desk{kind}").read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    _, server = next(servers(printed(capsys, "own.py")[1]))
    assert server["args"] == ["serve", str(tmp_path / "own.py")]
