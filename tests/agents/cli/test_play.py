"""`spade play`: a person plays through a pipe or a terminal; bad input is asked for again."""

from __future__ import annotations

import io
import json
import os
import pty
import random
import select
import signal
import sys
from pathlib import Path

import pytest

from spade_agents.cli import main
from spade_agents.cli.asking import ask_arguments, signature
from spade_environments import ToolCall, ToolSpec
from spade_environments.registry import find
from spade_environments.sandbox.sync import SyncSandbox

SPADE = Path(sys.executable).parent / "spade"

UNTIDY = '''from spade_environments import Call, Goal, ToolEnv, tool


class Untidy(ToolEnv):
    def setup(self):
        self.state = {"on": False}

    @tool
    def switch(self) -> str:
        """Switch it \x1b[31mon."""
        self.state["on"] = True
        return "\x1b[2Jon\u009b31m"

    def goals(self):
        return [Goal("state", "Switch it on.", lambda state, calls, reply: state["on"])]

    def solution(self):
        return [[Call("switch")]]
'''


def play(capsys, monkeypatch, typed, *arguments):
    """Exit code and standard output of `spade play` with `typed` on its standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["play", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().out


def gold_lines(name, seed):
    """What a person types to play the solution: arguments asked for one by one, or all at once."""
    rng = random.Random(seed)
    with SyncSandbox() as sandbox, sandbox.open(find(name)) as env:
        env.reset(seed)
        for action in env.solution():
            if not isinstance(action, ToolCall):
                yield f"/say {action.text}"
            elif env.description.base == "text":
                yield from action.arguments.values()
            elif action.arguments and rng.random() < 0.5:
                yield f"{action.name} {json.dumps(action.arguments)}"
            else:
                yield action.name
                yield from (v if isinstance(v, str) else json.dumps(v) for v in action.arguments.values())


@pytest.mark.parametrize("name", ["release_board", "kiln_queue"])
def test_the_solution_typed_into_a_pipe_scores_one(capsys, monkeypatch, name):
    code, out = play(capsys, monkeypatch, "\n".join([*gold_lines(name, 3), ""]), name, "--seed", "3")
    assert code == 0
    assert out.endswith("The episode is over. Score: 1\n")


def test_the_hint_is_shown_on_demand_only(capsys, monkeypatch):
    hint = find("ticket_desk").hint
    assert hint not in play(capsys, monkeypatch, "/quit\n", "ticket_desk")[1]
    assert hint in play(capsys, monkeypatch, "/hint\n/quit\n", "ticket_desk")[1]


def test_the_end_of_the_input_leaves_without_a_score(capsys, monkeypatch):
    code, out = play(capsys, monkeypatch, "/tools\nclose_ticket\n", "ticket_desk")
    assert code == 0
    assert "no score" in out


def test_a_wrong_name_or_command_costs_nothing_and_tells_what_can_be_typed(capsys, monkeypatch):
    out = play(capsys, monkeypatch, "nonsense\n/nonsense\n0\n99\nclose_ticket K1\n/quit\n", "ticket_desk")[1]
    assert out.count("Type a tool's name or number") == 6
    assert "all arguments as JSON" in out
    assert "Error" not in out


def test_what_an_environment_says_cannot_steer_the_terminal(capsys, monkeypatch, tmp_path):
    (tmp_path / "untidy.py").write_text(UNTIDY, encoding="utf-8")
    (tmp_path / "untidy.spec.json").write_text('{"name": "untidy", "skill": "tool selection"}', encoding="utf-8")
    code, out = play(capsys, monkeypatch, "switch\n/say \x1b[0m\n", str(tmp_path / "untidy.py"))
    assert code == 0
    assert "Score: 1" in out
    assert not {"\x1b", "\u009b"} & set(out)


def test_an_unknown_environment_is_wrong_usage(capsys, monkeypatch):
    assert play(capsys, monkeypatch, "", "ticket_disk")[0] == 2


TOOL = ToolSpec(
    name="book",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "seats": {"type": "integer"},
            "class": {"enum": ["first", "2"], "type": "string"},
            "quiet": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["seats", "class", "quiet", "names"],
        "additionalProperties": False,
    },
)


def test_arguments_are_asked_for_until_they_fit(monkeypatch, capsys):
    typed = ["two", "2.5", "2", "third", "2", "perhaps", "yes", "Ann", '["Ann"]', "7"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*typed, ""])))
    wanted = {"seats": 2, "class": "2", "quiet": True, "names": ["Ann"], "note": "7"}
    assert ask_arguments(TOOL) == wanted
    assert "argument 'seats' is a string ('two'); wanted integer" in capsys.readouterr().out


def test_an_empty_line_leaves_an_optional_argument_out(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("1\nfirst\nno\n[]\n\n"))
    assert "note" not in ask_arguments(TOOL)


def test_a_signature_tells_names_kinds_and_what_is_optional():
    told = signature(TOOL)
    assert told.startswith("book(seats: integer, class: one of first, 2, quiet: true or false, ")
    assert told.endswith("names: list, as JSON, note?: string or null)")


def _stopped_by_ctrl_c(terminal):
    """What a program shows until its end; CPython's `input` loses a signal that comes between its prompt and its wait,
    so the key is pressed again, as a person would."""
    shown = b""
    for _ in range(12):
        os.write(terminal, b"\x03")
        while select.select([terminal], [], [], 5.0)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                return shown
    raise AssertionError(f"still there after Ctrl-C twelve times; it has shown {shown!r}")


def test_ctrl_c_on_a_terminal_ends_at_once_and_cleanly():
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job, as this may be one, ignores it
        os.execv(SPADE, [str(SPADE), "play", "ticket_desk", "--seed", "3"])
    shown = b""
    while b"\n> " not in shown.replace(b"\r", b""):
        shown += os.read(terminal, 4096)
    shown += _stopped_by_ctrl_c(terminal)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"Traceback" not in shown
    assert b"no score" in shown
