"""Our grades against bfcl-eval's own command line, entry by entry, and its published answers through our path.

Run by `make test-eval` alone, which makes the package's environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter

import pytest

from spade_agents.policy import open_policy
from spade_agents.policy.scripted import ScriptedPolicy
from spade_evals.log import EvalLog
from spade_evals.runner import RunOptions, make_header, run_suite
from spade_evals.suite import Runtime
from spade_evals.suites.bfcl.categories import MULTI_TURN, SINGLE_TURN
from spade_evals.suites.bfcl.environment import bfcl_python
from spade_evals.suites.bfcl.suite import BfclSuite
from spade_evals.types import ModelFacts
from tests.agents.policy.endpoint_server import scripted_server
from tests.evals.logs import sample
from tests.evals.suites.bfcl.official import official, read_results, read_wrong, write_results
from tests.evals.suites.bfcl.responses import gold_response, gold_turns, spoilt_response, spoilt_turns

PYTHON = bfcl_python()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("SPADE_EVAL_DATA" not in os.environ, reason="holds ours against bfcl-eval: make test-eval"),
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


def script(turns):
    """A result's steps as messages of a chat-completions server; every turn ends by a text."""
    steps = []
    for turn in turns:
        for step in turn:
            if isinstance(step, list):
                calls = [{"function": {"name": n, "arguments": a}} for call in step for n, a in call.items()]
                tool_calls = [one | {"id": f"call_{k}", "type": "function"} for k, one in enumerate(calls)]
                steps.append({"role": "assistant", "content": None, "tool_calls": tool_calls})
            else:
                steps.append({"role": "assistant", "content": step or "Done."})
        if not turn or isinstance(turn[-1], list):
            steps.append({"role": "assistant", "content": "Done."})
    return steps


def as_read(result):
    """A result with calls that are no JSON as the empty text that is left of them where calls are read at once."""

    def is_json(step):
        try:
            return isinstance(step, str) or [json.loads(said) for call in step for said in call.values()]
        except ValueError:
            return False

    return [[step if is_json(step) else "" for step in turn] for turn in result]


async def test_conversations_are_the_official_ones_step_by_step(tmp_path):
    columns = MULTI_TURN
    suite = BfclSuite(part=",".join(columns))
    source = random.Random(1)
    every = suite.load(columns).tasks
    # Two entries begin alike, and are told apart by nothing that a server sees.
    tasks = [task for name in columns for task in draw(every, name, source)[:8] if not task.id.endswith(("_40", "_43"))]
    scripts = {}  # categories share first messages: one is asked at a time

    def answer(_number, body):
        said = [message["content"] for message in body["messages"] if message["role"] == "user"]
        steps = scripts[said[0]]
        done = sum(message["role"] == "assistant" for message in body["messages"])
        return steps[done] if done < len(steps) else {"role": "assistant", "content": "Done."}

    async with scripted_server(answer) as server, open_policy(f"{server.url}#model") as policy:
        for name in columns:
            chosen = [task for task in tasks if task.column == name]
            scripts = {task.messages[0].content: script(spoilt_turns(gold_turns(task), source)) for task in chosen}
            ids = {name: [task.id for task in chosen]}
            root = tmp_path / name
            root.mkdir()
            (root / "test_case_ids_to_generate.json").write_text(json.dumps(ids))
            arguments = ("generate", "--run-ids", "--num-threads", "4")
            await asyncio.to_thread(official, PYTHON, root, *arguments, OPENAI_BASE_URL=server.url)
            samples = [await suite.attempt(task, 0, Runtime(policy=policy)) for task in chosen]
            assert {one.id: json.loads(one.response) for one in samples} == {
                key: as_read(result) for key, result in read_results(root, name).items()
            }
    await suite.aclose()


def draw(every, column, source):
    """Fifty entries of a multi-turn column, twenty of another."""
    tasks = [task for task in every if task.column == column]
    return source.sample(tasks, min(len(tasks), 50 if column in MULTI_TURN else 20))
