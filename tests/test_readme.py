"""The README does what it says: its commands exist, its tutorial ends in a certificate, its quickstart runs."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from spade_agents.cli import app, main
from spade_agents.cli.configurations import configuration_path
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings
from spade_environments import Env
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox
from spade_tools import serve_http

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = sorted(
    set(re.findall(r"\bspade ((?:agent |corpus |env |memory |model |nano |pool )?[a-z]+)(?= |`)", README))
)

SETTINGS = re.findall(r"\bspade train (\S+) ((?:[a-z_.]+=[^\s`]+ ?)+)", README)


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and standard output of `spade`."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0), out.getvalue()


def filled_in(scaffold: str, completions: str) -> str:
    """The scaffold with the methods of `completions` in place of its own of the same names."""
    wanted = {node.name: node for node in ast.parse(completions).body if isinstance(node, ast.FunctionDef)}
    lines, given = scaffold.splitlines(), completions.splitlines()
    (cls,) = (node for node in ast.parse(scaffold).body if isinstance(node, ast.ClassDef))
    methods = [node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    assert {method.name for method in methods} == set(wanted)
    for method in reversed(methods):
        written = wanted[method.name]
        body = textwrap.indent("\n".join(given[first_line(written) : written.end_lineno]), "    ")
        lines[first_line(method) : method.end_lineno] = body.splitlines()
    return "\n".join(lines) + "\n"


def first_line(method: ast.FunctionDef) -> int:
    return min([method.lineno, *(decorator.lineno for decorator in method.decorator_list)]) - 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_the_readme_names_has_help_with_an_example(command: str):
    code, text = run(*command.split(), "--help")
    assert code == 0
    assert f"Example: spade {command}" in " ".join(text.split())


def test_the_readme_names_every_command():
    named = [command.name for command in app.registered_commands]
    for group in app.registered_groups:
        named += [f"{group.name} {command.name}" for command in group.typer_instance.registered_commands]
    assert set(named) <= set(COMMANDS)


def test_settings_are_changed_in_the_readme_by_values_that_fit():
    assert len(SETTINGS) >= 2
    for configuration, overrides in SETTINGS:
        load_settings(RunSettings, configuration_path(configuration), overrides.split())


@pytest.mark.parametrize(("name", "base"), [("tidy_shelf", "text"), ("stock_room", "tool")])
def test_the_tutorial_ends_in_a_certified_environment(tmp_path: Path, name: str, base: str):
    (completions,) = (block for block in BLOCKS if block.startswith(f"# {name}.py"))
    file = tmp_path / f"{name}.py"
    assert run("env", "new", name, "--base", base, "--out", str(tmp_path))[0] == 0
    code, text = run("env", "certify", str(file))
    assert code == 1
    assert "rejected" in text
    assert "to do:" in text
    file.write_text(filled_in(file.read_text(), completions))
    code, text = run("env", "certify", str(file))
    assert text.startswith("certified")
    assert code == 0


def test_the_example_without_a_model_plays_the_gold_solution(capsys: pytest.CaptureFixture[str]):
    (block,) = (block for block in BLOCKS if "play_gold" in block)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out == "1.0\n"


def test_the_example_of_an_own_server_makes_an_environment():
    (block,) = (block for block in BLOCKS if "McpEnv" in block)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert isinstance(names["env"], Env)


def test_the_example_of_a_connection_runs_a_program(monkeypatch: pytest.MonkeyPatch):
    (block,) = (block for block in BLOCKS if "open_toolset" in block)
    names: dict[str, Any] = {}
    exec(block, names)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    assert asyncio.run(names["compute"]("print(6 * 7)")).strip() == "42"


def test_the_example_of_a_trainer_elsewhere_makes_an_episode_and_ends_it(capsys: pytest.CaptureFixture[str]):
    (block,) = (block for block in BLOCKS if "open_control" in block)
    found: dict[str, Any] = {}
    exec(block, found)

    async def ask() -> None:
        async with open_sandbox() as sandbox, serve_http([find("ticket_desk")], sandbox, token="the token") as server:
            await found["ask_for_one"](server.url, server.token)

    asyncio.run(ask())
    url, reward = capsys.readouterr().out.split()
    assert "/episodes/" in url
    assert reward == "None"
