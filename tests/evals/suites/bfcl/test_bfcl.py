"""BFCL's categories: parts, what cannot run, and weights."""

from __future__ import annotations

import pytest

from spade_agents.errors import UsageError
from spade_evals.cli import main
from spade_evals.suites.bfcl.environment import bfcl_folder
from spade_evals.suites.bfcl.suite import BfclSuite


def test_parts_are_groups_and_categories():
    assert len(BfclSuite(part="live").columns) == 4
    assert list(BfclSuite(part="simple_python,multiple").columns) == ["simple_python", "multiple"]
    with pytest.raises(UsageError, match="bfcl_v4 has no category 'simple'"):
        BfclSuite(part="simple")


def test_what_cannot_run_is_named_by_the_preflight(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    suite = BfclSuite()
    lacking = {lack.column: lack.what for lack in suite.preflight()}
    assert set(lacking) == set(suite.columns)
    assert "spade-eval setup bfcl_v4" in lacking["simple_python"]
    assert "spade-eval setup bfcl_v4" in lacking["multi_turn_base"]
    assert "needs a search key and the network" in lacking["web_search_base"]
    assert "needs an embedding model" in lacking["memory_vector"]


@pytest.mark.parametrize("name", ["bfcl_v4", "bfcl"])
def test_an_environment_that_is_there_is_not_made_again(tmp_path, monkeypatch, capsys, name):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bfcl_folder().mkdir(parents=True)
    (bfcl_folder() / "READY").touch()
    with pytest.raises(SystemExit) as stop:
        main(["setup", name])
    assert (stop.value.code or 0, capsys.readouterr().out) == (0, f"ready: {bfcl_folder()}\n")


def test_columns_weigh_as_in_the_official_mean():
    weights = BfclSuite().weights
    shares = {"live": 10, "non_live": 10, "irrelevance": 10, "multi_turn": 30, "agentic": 40}
    assert sum(weights.values()) == pytest.approx(100)
    assert {part: sum(weights[name] for name in BfclSuite(part=part).columns) for part in shares} == pytest.approx(
        shares
    )
    assert BfclSuite(part="multi_turn").weights["multi_turn_base"] == 7.5
    assert BfclSuite(part="live_relevance").weights == {"live_relevance": 1.0}
