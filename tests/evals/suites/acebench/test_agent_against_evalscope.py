"""Our dialogues of ACEBench against evalscope's, entry by entry; run by `make test-eval DATA=DIR`."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from spade_agents.policy.protocol import Sampling
from spade_agents.policy.scripted import ScriptedPolicy
from spade_evals.suite import Runtime
from spade_evals.suites.acebench.agent import grade_agent, open_classes, play_agent
from spade_evals.suites.acebench.dialogue import FINISHED
from spade_evals.suites.acebench.environment import evalscope_folder, scenarios_folder
from spade_evals.suites.acebench.suite import AGENT, AceBenchSuite
from tests.evals.suites.acebench.oracle import Line, Oracle, Speaker

DATA = os.environ.get("SPADE_EVAL_DATA")

pytestmark = pytest.mark.skipif(
    not DATA or scenarios_folder() is None, reason="needs ACEBench's data and evalscope: make test-eval DATA=DIR"
)

# Entries whose published calls do not lead to the published states, by evalscope's checker as by ours.
UNESCAPED = {f"agent_multi_turn_{number}" for number in range(8, 16)} | {
    f"agent_multi_step_{number}" for number in (0, 1, 4, 5)
}
"""Their calls hold apostrophes that end a string before its time."""
UNREACHED = {
    "agent_multi_turn_6": "does not log the device in",
    "agent_multi_step_0": "orders a product that the menu lacks",
    "agent_multi_step_1": "orders a product that the menu lacks",
    "agent_multi_step_12": "logs nobody in to the food platform",
    "agent_multi_step_13": "logs nobody in to the food platform",
    "agent_multi_step_14": "sends a full stop that the state lacks",
    "agent_multi_step_15": "sends a full stop that the state lacks",
    "agent_multi_step_16": "does not log the device in",
    "agent_multi_step_17": "sends a full stop that the state lacks",
}
"""And of what is left, why."""
MISSPELT = {f"agent_{name}" for name in ("multi_turn_7", "multi_turn_9", "multi_step_0", "multi_step_1")}
"""Their published states name a class that there is not; the protocol passes over it."""


def entries():
    """Tasks of the agent parts with their milestones."""
    suite = AceBenchSuite(part="agent", data=Path(DATA or ""), user_model="scripted:silent")
    folder = suite._folder()
    stones = {}
    for name in AGENT:
        for line in (folder / "possible_answer" / f"data_{name}.json").read_text().splitlines():
            row = json.loads(line)
            found = row["mile_stone"]
            stones[row["id"]] = found[0] if isinstance(found[0], list) else found
    return [(task, stones[task.id]) for task in suite.load(AGENT).tasks]


def metadata(task):
    scenario = task.data["scenario"]
    return {
        "test_category": task.column,
        "question": scenario.question,
        "functions": scenario.functions,
        "initial_config": scenario.configuration,
        "involved_classes": list(scenario.classes),
        "language": "en",
    }


async def both(oracle, classes, task, said, heard):
    """The same lines played by evalscope and by us; what both asked, what the classes were given, states, verdicts."""
    agent, user = Speaker(said), Speaker(heard)
    theirs = oracle.rollout.run_rollout(agent, metadata(task), user_model=user)
    verdict = oracle.checker.check_agent_end_state(theirs.end_state, task.data["scenario"].gold)["valid"]
    line, users = Line(said), Line(heard)
    runtime = Runtime(policy=ScriptedPolicy(line), user=ScriptedPolicy(users))
    sample = await play_agent(task, 0, runtime, classes, sampling=Sampling(), chinese=False)
    ours = json.loads(sample.response)
    assert line.asked == agent.asked, task.id
    assert users.asked == user.asked, task.id
    assert (ours["process"], ours["states"]) == (theirs.process, theirs.end_state), task.id
    assert sample.score == float(verdict), (task.id, sample.reason)
    assert grade_agent(task, sample).value == sample.score
    return sample


def spoilt(lines, source):
    """Lines changed in one of the ways that models err."""
    place = source.randrange(len(lines))
    ways = (
        lambda text: text.replace("'", '"'),
        lambda text: text.replace("=", "_x=", 1),
        lambda text: "".join(c if not c.isdigit() else str((int(c) + 1) % 10) for c in text),
        lambda text: text.strip("[]"),
        lambda text: f"Sure:\n{text}",
        lambda text: text.replace("[", "[\n", 1),
        lambda text: f"{text[:-1]}, missing()]",
        lambda text: f"I could call {text} if you like",
        lambda text: text.replace(")", ", extra=nested(1), more=other(x=1))", 1),
        lambda text: "",
        lambda text: text.replace("()", ".__class__()"),
        lambda text: FINISHED,
    )
    return [*lines[:place], source.choice(ways)(lines[place]), *lines[place + 1 :]]


async def test_gold_replay_agrees_entry_by_entry_and_the_residue_is_known():
    oracle, classes = Oracle(evalscope_folder()), open_classes()
    heard = ["Please do it.", "Go on."]
    plain, mended, misspelt = set(), set(), set()
    try:
        for task, stones in entries():
            sample = await both(oracle, classes, task, [*stones, FINISHED], heard)
            plain |= set() if sample.score else {task.id}
            if task.id in UNESCAPED:
                stones = [re.sub(r"(?<=\w)'(?=[st]\b)", r"\\'", line) for line in stones]
                sample = await both(oracle, classes, task, [*stones, FINISHED], heard)
            mended |= set() if sample.score else {task.id}
            gold = {name for state in task.data["scenario"].gold for name in state}
            misspelt |= set() if gold == set(task.data["scenario"].classes) else {task.id}
    finally:
        await classes.aclose()
    assert plain == UNESCAPED | set(UNREACHED)
    assert mended == set(UNREACHED)
    assert misspelt == MISSPELT


@pytest.mark.slow
async def test_spoilt_dialogues_agree_entry_by_entry():
    oracle, classes, source = Oracle(evalscope_folder()), open_classes(), random.Random(0)
    compared = right = 0
    try:
        for task, stones in entries():
            for heard in (["Please do it.", "Go on."], ["Hello", f"No, {FINISHED}"], [FINISHED]):
                sample = await both(oracle, classes, task, spoilt([*stones, FINISHED], source), heard)
                compared, right = compared + 1, right + int(sample.score or 0)
    finally:
        await classes.aclose()
    print(f"{compared} dialogues compared, {right} of them right by both")
    assert 0 < right < compared
