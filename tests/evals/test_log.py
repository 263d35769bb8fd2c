from __future__ import annotations

import pytest

from spade_agents.errors import UsageError
from spade_evals.log import EvalLog, find_logs
from tests.evals.logs import HEADER, failed, sample, write_log


def test_a_log_gives_back_what_was_written(tmp_path):
    log = write_log(tmp_path / "log", [sample("a", 0.5, reason="half", tags={"skill": "x"}), sample("b")])
    again = EvalLog(tmp_path / "log")
    assert again.header().suite == "made:up"
    assert again.samples().latest == {
        ("a", 0): sample("a", 0.5, reason="half", tags={"skill": "x"}),
        ("b", 0): sample("b"),
    }
    assert again.samples() == log.samples()


def test_the_highest_attempt_counts_whatever_its_place(tmp_path):
    log = write_log(tmp_path / "log", [failed("a"), sample("a", attempt=2), sample("a", 0.0, attempt=1)])
    samples = log.samples()
    assert samples.latest["a", 0] == sample("a", attempt=2)
    assert samples.doubled == ()


def test_the_same_attempt_twice_is_a_doubled_id(tmp_path):
    log = write_log(tmp_path / "log", [sample("a", 0.0), sample("a", 1.0), sample("a", epoch=1)])
    samples = log.samples()
    assert samples.doubled == (("a", 0, 0),)
    assert samples.latest["a", 0].score == 0.0


def test_a_line_cut_short_by_a_kill_is_left_out_and_the_next_begins_on_its_own(tmp_path):
    log = write_log(tmp_path / "log", [sample("a")])
    with log.samples_path.open("ab") as file:
        file.write(b'{"id":"b","epoch":0,"att')
    assert set(log.samples().latest) == {("a", 0)}
    with log.writing() as writer:
        writer.append(sample("c"))
    assert set(log.samples().latest) == {("a", 0), ("c", 0)}


def test_a_damaged_line_is_named(tmp_path):
    log = write_log(tmp_path / "log", [sample("a")])
    with log.samples_path.open("ab") as file:
        file.write(b"nonsense\n")
    with pytest.raises(UsageError, match=r"samples\.jsonl, line 2, is no sample"):
        log.samples()


def test_a_log_has_one_writer(tmp_path):
    log = write_log(tmp_path / "log", [sample("a")])
    with log.writing(), pytest.raises(UsageError, match="being written by another process"), log.writing():
        pass


def test_a_new_log_never_lies_over_another(tmp_path):
    write_log(tmp_path / "log", [sample("a")])
    with pytest.raises(UsageError, match="exists; give another --out"):
        EvalLog.create(tmp_path / "log", HEADER)


def test_a_folder_that_is_no_log_is_told_so(tmp_path):
    with pytest.raises(UsageError, match=r"has no eval\.json"):
        EvalLog(tmp_path).header()
    with pytest.raises(UsageError, match="is no evaluation log and holds none"):
        find_logs(tmp_path)
    (tmp_path / "eval.json").write_text('{"format": 1}')
    with pytest.raises(UsageError, match="cannot be read"):
        EvalLog(tmp_path).header()


def test_logs_are_found_below_a_folder(tmp_path):
    write_log(tmp_path / "two", [sample("a")])
    write_log(tmp_path / "one", [sample("a")])
    assert [log.path.name for log in find_logs(tmp_path)] == ["one", "two"]
    assert [log.path.name for log in find_logs(tmp_path / "two")] == ["two"]
