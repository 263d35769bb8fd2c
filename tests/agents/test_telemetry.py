from __future__ import annotations

import io

import pytest

from spade_agents.telemetry import LineReporter, MetricsLog, open_progress


def test_rows_are_appended_and_read_back_in_order(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.rows() == []
    log.append({"rollout": 0, "loss": 0.5})
    log.append({"rollout": 1, "loss": 0.25})
    assert [row["loss"] for row in log.rows()] == [0.5, 0.25]


def test_nan_is_refused_and_nothing_is_written(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    with pytest.raises(ValueError, match="JSON"):
        log.append({"rollout": 0, "loss": float("nan")})
    assert log.rows() == []


def test_a_line_cut_short_by_a_kill_is_dropped_and_truncation_removes_it(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for rollout in range(3):
        log.append({"rollout": rollout})
    with log.path.open("a") as file:
        file.write('{"rollout": 3, "los')
    assert len(log.rows()) == 3
    log.truncate(2)
    assert log.path.read_text() == '{"rollout": 0}\n{"rollout": 1}\n'


def test_progress_is_plain_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    with open_progress(stream) as progress:
        assert isinstance(progress, LineReporter)
        progress.begin("plays", 10)
        progress.phase("evaluate")
        progress.advance(4)
        progress.say("rollout 1 of 2")
    assert stream.getvalue() == "rollout 1 of 2\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_a_bar_names_the_work_and_its_phase_below_the_lines_that_stay():
    stream = Terminal()
    with open_progress(stream) as progress:
        progress.begin("plays", 10)
        progress.phase("design")
        progress.advance(4)
        progress.say("a line that stays [not markup]")
    assert "plays: design" in stream.getvalue()
    assert "4/10" in stream.getvalue()
    assert "a line that stays [not markup]" in stream.getvalue()
