from __future__ import annotations

import io
import json
import tomllib

import pytest

from spade_agents.telemetry import LineReporter, open_progress
from spade_agents.terminal import visible, visible_line

STEERING = (
    *("\x00", "\x07", "\x08", "\r", "\x1b", "\x7f", "\x85", "\x9b"),
    *("\u200e", "\u202e", "\u2028", "\u2066", "\ufeff", "\udc9b", "\U000e0001"),
)


@pytest.mark.parametrize("letter", STEERING, ids=ascii)
def test_what_steers_a_terminal_is_written_out(letter):
    shown = visible(f"a{letter}b")
    assert shown.isascii()
    assert shown.isprintable()
    assert shown == visible_line(f"a{letter}b")
    assert visible(shown) == shown


def test_plain_text_of_any_script_and_its_lines_stay():
    text = "naïve\tπ ≠ 3\n日本 👩\u200d🚀 می\u200cخواهم"
    assert visible(text) == text


def test_a_name_cannot_pass_for_another_line():
    assert visible_line("a\n\tb") == "a\\u000a\\u0009b"


def test_written_out_text_is_read_back_to_the_same_by_toml_and_json():
    text = "".join(letter for letter in STEERING if letter not in "\udc9b")
    assert tomllib.loads(f'x = "{visible(text)}"')["x"] == text
    assert json.loads(f'"{visible(text[:-1])}"') == text[:-1]


def test_progress_says_nothing_that_steers_the_terminal():
    stream = io.StringIO()
    LineReporter(stream).say("part \x1b[2J: 0.5")
    assert stream.getvalue() == "part \\u001b[2J: 0.5\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_shows_hostile_names_as_they_are_written(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with open_progress(stream) as progress:
        progress.begin("run [/red]\x07", 3)
        progress.phase("[bold\x1b]0;owned\x07")
        progress.say("[red]\x1b]0;owned\x07")
        progress.advance()
    assert "\x07" not in stream.getvalue()
    assert "\x1b]0;owned" not in stream.getvalue()
    assert "[red]\\u001b]0;owned" in stream.getvalue()
