"""BFCL's single-turn categories; what needs the package's environment is skipped where it was not set up."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from spade_agents.errors import UsageError
from spade_evals.suites.bfcl.environment import bfcl_python
from spade_evals.suites.bfcl.suite import SINGLE_TURN, BfclSuite
from tests.evals.logs import sample

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
    assert "not part of this version" in lacking["multi_turn_base"]


def plain(value):
    """One right value of a gold argument, whose inner values may be lists of right ones."""
    if isinstance(value, dict):
        return right_ones(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def right_ones(arguments):
    """The first right value of each argument; one that may be left out is left out."""
    first = {name: values[0] if isinstance(values, list) and values else values for name, values in arguments.items()}
    return {name: plain(value) for name, value in first.items() if value not in ("", [])}


def gold_response(task):
    if "irrelevance" in task.column:
        return "No function fits."
    if task.column == "live_relevance":
        return json.dumps({"calls": [{"name": task.tools[0].name, "arguments": {}}]})
    calls = [
        {"name": name.replace(".", "_"), "arguments": right_ones(arguments)}
        for call in task.data["gold"]
        for name, arguments in call.items()
    ]
    return json.dumps({"text": "", "calls": calls})


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
