"""What the commands that run self-play share."""

from __future__ import annotations

from pathlib import Path

import pytest

from spade_agents.cli.runs import free_folder, held_out_lines
from spade_agents.report import Estimate, Evaluation


def evaluation(rollout: int, value: float, *, missing: int = 0) -> Evaluation:
    part = Estimate(value=value, low=value - 0.05, high=value + 0.05, count=400, missing=missing)
    return Evaluation(rollout=rollout, parts={"known families": part})


def test_a_free_folder_is_the_first_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert free_folder("demo") == Path("runs/demo")
    Path("runs/demo").mkdir(parents=True)
    Path("runs/demo-2").mkdir()
    assert free_folder("demo") == Path("runs/demo-3")


def test_solve_rates_are_told_before_and_after_with_intervals():
    lines = held_out_lines([evaluation(0, 0.4), evaluation(8, 0.6, missing=2)])
    assert lines[1] == "  known families: 0.400 [0.350, 0.450] -> 0.600 [0.550, 0.650]  +0.200, 400 plays, 2 missing"


def test_a_single_evaluation_is_told_without_a_change():
    assert held_out_lines([evaluation(0, 0.4)])[1] == "  known families: 0.400 [0.350, 0.450], 400 plays"


def test_a_run_without_evaluation_tells_no_rate():
    assert held_out_lines([]) == []
