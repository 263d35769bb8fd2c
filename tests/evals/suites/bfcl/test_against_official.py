"""Our grades against bfcl-eval's own command line, entry by entry, and its published answers through our path.

Run by `make test-eval`, which makes the package's environment; skipped where there is none.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

import pytest

from spade_agents.policy.scripted import ScriptedPolicy
from spade_evals.log import EvalLog
from spade_evals.runner import RunOptions, make_header, run_suite
from spade_evals.suite import Runtime
from spade_evals.suites.bfcl.categories import MULTI_TURN, SINGLE_TURN
from spade_evals.suites.bfcl.environment import bfcl_python
from spade_evals.suites.bfcl.suite import BfclSuite
from spade_evals.types import ModelFacts
from tests.evals.logs import sample
from tests.evals.suites.bfcl.official import official, read_wrong, write_results
from tests.evals.suites.bfcl.responses import gold_response, gold_turns, spoilt_response, spoilt_turns

PYTHON = bfcl_python()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(PYTHON is None, reason="bfcl-eval has no environment here: spade-eval setup bfcl_v4"),
]


@pytest.mark.parametrize("column", MULTI_TURN)
async def test_published_answers_through_our_path_are_all_right(column, tmp_path):
    suite = BfclSuite(part=column)
    data = suite.load([column])
    facts = ModelFacts(target="scripted:gold")
    log = EvalLog.create(
        tmp_path / "log",
        make_header(suite, data, data.tasks, model=facts, user_model=None, seed=0, options=RunOptions()),
    )
    try:
        summary = await run_suite(suite, log, data.tasks, Runtime(policy=ScriptedPolicy.gold()))
    finally:
        await suite.aclose()
    found = summary.columns[column]
    print(f"{column}: mean {found.mean:.4f} of {found.scored} scored, {found.reasons}")
    assert (found.scored, found.mean, dict(found.reasons)) == (200, 1.0, {})


def mixed(tasks, source):
    """By id what our log holds and what the package's result file holds: half of them spoilt."""
    ours, theirs = {}, {}
    for task in tasks:
        spoil = source.random() < 0.5
        if task.column in MULTI_TURN:
            turns = gold_turns(task)
            theirs[task.id] = spoilt_turns(turns, source) if spoil else turns
            ours[task.id] = json.dumps(theirs[task.id])
        elif task.column.startswith("memory"):
            said = "I do not know" if spoil else str(task.data["gold"][0])
            theirs[task.id] = [[[{"memory_retrieve": "{}"}], f"{{'answer': '{said}', 'context': 'told before'}}"]]
            ours[task.id] = json.dumps(theirs[task.id])
        else:
            gold = gold_response(task)
            ours[task.id] = spoilt_response(task, gold, source) if spoil else gold
            theirs[task.id] = of_handler(ours[task.id])
    return ours, theirs


def of_handler(response):
    """A response as the package's handler for chat completions gives it."""
    try:
        return [{call["name"]: json.dumps(call["arguments"])} for call in json.loads(response)["calls"]]
    except ValueError:
        return response


async def test_our_column_is_the_official_one_entry_by_entry(tmp_path):
    columns = (*SINGLE_TURN, *MULTI_TURN, "memory_kv", "memory_rec_sum")
    suite = BfclSuite(part=",".join(columns))
    source = random.Random(0)
    every = suite.load(columns).tasks
    tasks = [task for name in columns for task in draw(every, name, source)]
    ours, theirs = mixed(tasks, source)
    try:
        scores = await asyncio.gather(*(suite.grade(task, sample(task.id, response=ours[task.id])) for task in tasks))
    finally:
        await suite.aclose()
    write_results(tmp_path, {name: {t.id: theirs[t.id] for t in tasks if t.column == name} for name in columns})
    official(PYTHON, tmp_path, "evaluate", "--test-category", ",".join(columns), "--partial-eval")
    differing, right, compared = [], Counter(), Counter()
    for name in columns:
        accuracy, wrong = read_wrong(tmp_path, name)
        pairs = [(task.id, score) for task, score in zip(tasks, scores, strict=True) if task.column == name]
        differing += [(key, score) for key, score in pairs if (score.value == 1.0) == (key in wrong)]
        compared[name], right[name] = len(pairs), sum(score.value == 1.0 for _, score in pairs)
        assert right[name] / compared[name] == pytest.approx(accuracy), name
    for name in columns:
        print(f"{name}: {compared[name]} compared, {right[name]} right by both")
    print(f"{compared.total()} responses compared, {right.total()} of them right by both")
    assert differing == []
    assert compared.total() >= 400
    assert all(0 < right[name] < compared[name] for name in columns)


def draw(every, column, source):
    """Fifty entries of a multi-turn column, twenty of another."""
    tasks = [task for task in every if task.column == column]
    return source.sample(tasks, min(len(tasks), 50 if column in MULTI_TURN else 20))
