"""What the commands that run self-play share."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from spade_agents.cli import main
from spade_agents.cli.runs import STOPPED, conclude, free_folder, held_out_lines, watched
from spade_agents.report import Estimate, Evaluation
from spade_agents.rollout import EvalSummary, PartSummary
from spade_agents.selfplay import RunResult
from tests.agents.selfplay.scripted import run as scripted_run
from tests.agents.selfplay.scripted import settings

CHANGE = Estimate(value=0.2, low=0.12, high=0.28, count=398)


def evaluation(rollout: int, value: float, *, missing: int = 0) -> Evaluation:
    part = Estimate(value=value, low=value - 0.05, high=value + 0.05, count=400, missing=missing)
    return Evaluation(rollout=rollout, parts={"known families": part})


def test_what_libraries_print_goes_to_stderr(capsys: pytest.CaptureFixture[str]):
    with watched() as progress:
        print("a library")
        progress.say("rollout 0")
    print("a result")
    out, err = capsys.readouterr()
    assert out == "a result\n"
    assert err == "a library\nrollout 0\n"


def test_a_free_folder_is_the_first_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert free_folder("demo") == Path("runs/demo")
    Path("runs/demo").mkdir(parents=True)
    Path("runs/demo-2").mkdir()
    assert free_folder("demo") == Path("runs/demo-3")


def test_solve_rates_are_told_before_and_after_with_intervals():
    lines = held_out_lines([evaluation(0, 0.4), evaluation(8, 0.6, missing=2)], {"known families": CHANGE})
    assert lines[1].split("  ")[1:] == [
        "known families: 0.400 [0.350, 0.450] -> 0.600 [0.550, 0.650]",
        "+0.200 [+0.120, +0.280], 400 plays, 2 missing",
    ]


def test_a_single_evaluation_is_told_without_a_change():
    assert held_out_lines([evaluation(0, 0.4)], {})[1] == "  known families: 0.400 [0.350, 0.450], 400 plays"


def test_a_run_without_evaluation_tells_no_rate():
    assert held_out_lines([], {}) == []


async def improving(policy, *, step: int, seed: int) -> EvalSummary:
    rate = 0.25 + 0.125 * step
    part = PartSummary(plays=40, missing=0, win_rate=rate, low=rate - 0.1, high=rate + 0.1)
    return EvalSummary(step=step, parts={"known families": part})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    path = tmp_path_factory.mktemp("runs") / "r"
    asyncio.run(scripted_run(path, settings("run.rollouts=2"), evaluator=improving))
    return RunResult(path=path, finished=True, rollouts=2)


def test_a_finished_run_ends_in_its_figures_and_its_report(finished: RunResult, capsys: pytest.CaptureFixture[str]):
    conclude(finished, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[1] == "  known families: 0.250 [0.150, 0.350] -> 0.500 [0.400, 0.600]  +0.250 [not estimable], 40 plays"
    )
    assert lines[2].startswith("certified share: ")
    assert lines[3] == f"report: {finished.path / 'report.html'}"
    assert (finished.path / "report.html").exists()


def test_a_finished_run_as_json_is_read_by_a_program(finished: RunResult, capsys: pytest.CaptureFixture[str]):
    conclude(finished, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["finished"] is True
    assert told["report"] == str(finished.path / "report.html")
    assert [row["rollout"] for row in told["evaluations"]] == [0, 2]


def test_a_process_that_followed_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    conclude(RunResult(path=tmp_path, finished=True, rollouts=2, leads=False), as_json=False)
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_run_still_has_its_report_and_ends_as_shells_expect(finished: RunResult):
    with pytest.raises(typer.Exit) as ended:
        conclude(replace(finished, finished=False), as_json=False)
    assert ended.value.exit_code == STOPPED == 130


def test_the_report_of_a_run_can_be_written_again(finished: RunResult, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["report", str(finished.path)])
    assert not ended.value.code
    assert capsys.readouterr().out.strip() == str(finished.path / "report.html")


def test_a_folder_that_is_no_run_has_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path)])
    assert ended.value.code == 2
    assert "no run directory" in capsys.readouterr().err
