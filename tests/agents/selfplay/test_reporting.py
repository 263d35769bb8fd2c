"""From a run directory to its report."""

from __future__ import annotations

import pytest

from spade_agents.errors import UsageError
from spade_agents.rollout import EvalSummary, PartSummary
from spade_agents.selfplay.reporting import evaluation_of, report_data, write_report
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import RunSettings
from tests.agents.selfplay.scripted import Behaviour, run, settings


async def improving(policy, *, step, seed):
    rate = 0.25 + 0.125 * step
    wins = {"a:1": 0.0, "a:2": float(step > 2), "b:1": 1.0, "b:2": float(step > 1), "c:1": 0.0}
    skills = {"data retrieval": rate}
    part = PartSummary(plays=40, missing=1, win_rate=rate, low=rate - 0.1, high=rate + 0.1, by_skill=skills, wins=wins)
    return EvalSummary(step=step, parts={"known": part})


async def test_a_scripted_run_has_every_figure_of_its_report(tmp_path):
    await run(tmp_path / "r", settings("evaluation.every=2"), Behaviour(hinted_skill=1.0), improving)
    data = report_data(RunDirectory.open(tmp_path / "r"))
    assert [evaluation.rollout for evaluation in data.evaluations] == [0, 2, 4]
    known = data.evaluations[-1].parts["known"]
    assert (known.value, known.count, known.missing) == (0.75, 40, 1)
    (change,) = data.changes
    assert change.skills == (("data retrieval", 0.25, 0.75),)
    assert change.difference is not None
    assert (change.difference.value, change.difference.count) == (0.4, 5)
    assert [row.rollout for row in data.rollouts] == [0, 1, 2, 3]
    designed = data.rollouts[0]
    assert designed.certified is not None
    assert designed.certified.low is not None
    assert designed.regret_raw is not None
    assert designed.win_rate is not None
    assert designed.distinct is not None
    assert sum(designed.regimes.values()) == 3
    assert data.rollouts[1].certified is None
    assert len(data.environments) == 6
    assert {entry.rollout for entry in data.environments} == {0, 2}
    assert data.featured
    assert all(len(featured.plays) == 2 for featured in data.featured)
    assert {play.hinted for play in data.featured[0].plays} == {False, True}
    path = write_report(tmp_path / "r")
    page = path.read_text()
    assert path.name == "report.html"
    assert "0.25 → 0.75" in page
    assert "With the hint" in page


def test_a_run_that_has_done_nothing_yet_has_a_report_that_says_so(tmp_path):
    RunDirectory.create(tmp_path / "r", RunSettings(), "D")
    assert "This run has no figures yet." in write_report(tmp_path / "r").read_text()


def test_a_folder_that_is_no_run_has_no_report(tmp_path):
    with pytest.raises(UsageError, match="no run directory"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "spoilt", "told"),
    [
        ("manifest.json", None, "manifest.json cannot be read"),
        ("manifest.json", "[]", "manifest.json holds no JSON object"),
        ("metrics.jsonl", '{"kind": "rollout"\n', "line 1, is no row of JSON"),
        ("metrics.jsonl", "5\n", "line 1, is no row of JSON"),
    ],
)
def test_a_run_with_a_spoilt_file_has_no_report_and_says_which_file(tmp_path, name, spoilt, told):
    RunDirectory.create(tmp_path / "r", RunSettings(), "D")
    if spoilt is None:
        (tmp_path / "r" / name).unlink()
    else:
        (tmp_path / "r" / name).write_text(spoilt)
    with pytest.raises(UsageError, match=told):
        write_report(tmp_path / "r")
    assert not (tmp_path / "r" / "report.html").exists()


def test_a_part_without_a_valid_play_is_left_out_of_an_evaluation():
    row = {"rollout": 1, "parts": {"known": {"plays": 0, "missing": 9, "win_rate": None, "low": None, "high": None}}}
    assert evaluation_of(row).parts == {}
