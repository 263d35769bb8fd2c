"""BFCL's categories; what needs the package's environment is skipped where it was not set up."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from spade_agents.errors import UsageError
from spade_evals.suites.bfcl.environment import bfcl_python
from spade_evals.suites.bfcl.suite import SINGLE_TURN, BfclSuite
from tests.evals.logs import sample
from tests.evals.suites.bfcl.responses import gold_response

needs_environment = pytest.mark.skipif(
    bfcl_python() is None, reason="bfcl-eval has no environment here: spade-eval setup bfcl_v4"
)


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


def test_columns_weigh_as_in_the_official_mean():
    weights = BfclSuite().weights
    shares = {"live": 10, "non_live": 10, "irrelevance": 10, "multi_turn": 30, "agentic": 40}
    assert sum(weights.values()) == pytest.approx(100)
    assert {part: sum(weights[name] for name in BfclSuite(part=part).columns) for part in shares} == pytest.approx(
        shares
    )
    assert BfclSuite(part="multi_turn").weights["multi_turn_base"] == 7.5
    assert BfclSuite(part="live_relevance").weights == {"live_relevance": 1.0}


@needs_environment
async def test_gold_calls_are_right_and_a_program_is_wrong():
    # Java's and JavaScript's answers are source text in those languages, which the published gold does not spell.
    suite = BfclSuite(part=",".join(name for name in SINGLE_TURN if "java" not in name))
    tasks = suite.load(list(suite.columns)).tasks
    try:
        scores = await asyncio.gather(*(suite.grade(one, sample(one.id, response=gold_response(one))) for one in tasks))
        hostile = next(task for task in tasks if task.column == "simple_python")
        refused = await suite.grade(hostile, sample("x", response="__import__('os').system('touch mark')"))
    finally:
        await suite.aclose()
    wrong = Counter(task.column for task, score in zip(tasks, scores, strict=True) if score.value < 1.0)
    # Ten entries do not accept the first of their own listed values.
    assert wrong == {"simple_python": 1, "parallel_multiple": 2, "live_simple": 2, "live_multiple": 5}
    assert refused.value == 0.0
