"""`spade agent run`: a transcript as it goes, and exit codes that tell how it ended."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

SPADE = (sys.executable, "-c", "from spade_agents.cli import main; main()")
SERVE = shlex.join([*SPADE, "serve", "ticket_desk", "--seed", "3"])


def run(*arguments: str) -> tuple[int, str, str]:
    """In a process of its own: the server on stdio inherits its standard error."""
    done = subprocess.run(
        [*SPADE, "agent", "run", *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def script(tmp_path):
    """A script of assistant messages, as a model."""

    def write(*messages: dict) -> str:
        path = tmp_path / "play.jsonl"
        path.write_text("".join(json.dumps(message) + "\n" for message in messages))
        return f"scripted:{path}"

    return write


def test_each_message_call_and_result_is_printed(script):
    model = script({"calls": [{"name": "get_task", "arguments": {}}]}, {"text": "I am \x1b[31mdone."})
    code, out, err = run("--model", model, "--mcp", SERVE, "Carry it out.")
    speakers = [line.split(":")[0].strip() for line in out.splitlines() if ": " in line]
    assert (code, "cannot" in err) == (0, False)
    assert speakers[0] == "user" and "call" in speakers and "result" in speakers and speakers[-1] == "agent"
    assert "get_task({})" in out and "\x1b" not in out
    assert "2 messages" in err


def test_used_up_turns_are_a_failure(script):
    model = script(*[{"calls": [{"name": "get_task", "arguments": {}}]}] * 3)
    code, out, err = run("--model", model, "--mcp", SERVE, "--turns", "1", "Carry it out.")
    assert (code, err.count("cannot be reached")) == (1, 0), err
    assert "1 turn used up" in out


def test_without_a_task_a_served_episode_is_played_to_its_end(script):
    model = script({"calls": [{"name": "answer", "arguments": {"answer": "61"}}]})
    code, out, err = run("--model", model, "--mcp", shlex.join([*SPADE, "serve", "bell_towers", "--seed", "3"]))
    told = [line for line in out.splitlines() if ": " in line]
    assert code == 0 and "1 message," in err
    assert "rings at minute" in told[0] and "get_task" not in out
    assert told[-1].endswith("result: That is not the minute.")


def test_a_task_from_nowhere_is_a_usage_error():
    code, out, err = run("--model", "scripted:silent")
    assert (code, out) == (2, "") and "no TASK was given" in err


def test_without_tools_a_plain_answer_is_an_answer(script):
    code, out, _ = run("--model", script({"text": "Four."}), "What is two and two?")
    assert code == 0 and "agent: Four." in out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--model", "nanno"), 2, "did you mean 'nano'"),
        (("--model", "scripted:silent", "--mcp", "/nowhere/at/all"), 3, "cannot be reached"),
        (("--model", "scripted:silent", "--mcp", "http://127.0.0.1:9/mcp"), 3, "cannot be reached"),
        (("--model", "http://127.0.0.1:9/v1"), 2, "URL#MODEL"),
    ],
)
def test_what_is_not_there_is_told(arguments, code, told):
    found, _, err = run(*arguments)
    assert found == code and told in err


def test_the_gold_script_is_refused_where_no_solution_can_be_known():
    code, out, err = run("--model", "scripted:gold", "--mcp", SERVE)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "give a model" in err
