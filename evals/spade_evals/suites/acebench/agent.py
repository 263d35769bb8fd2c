"""The agent parts of ACEBench: dialogues played by the one episode loop, graded by the states that they leave."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.policy.protocol import Sampling
from spade_agents.rollout import play
from spade_agents.seeds import derive_seed
from spade_evals.grading.jailed import JailedGrader
from spade_evals.suite import Runtime
from spade_evals.suites.acebench.dialogue import AceBenchEnv, Scenario, SimulatedUser
from spade_evals.suites.acebench.environment import evalscope_folder, scenarios_folder
from spade_evals.suites.acebench.states import check_states
from spade_evals.suites.acebench.transcript import TranscriptPolicy
from spade_evals.suites.plays import sample_of
from spade_evals.types import Sample, Score, Task

__all__ = ["agent_lacks", "agent_task", "grade_agent", "open_classes", "play_agent"]


def agent_lacks(column: str, user_model: str | None) -> str:
    """What a column needs besides its files and how to get it; empty where nothing is missing."""
    if scenarios_folder() is None:
        return f"evalscope is not at {evalscope_folder()}; install it: spade-eval setup acebench"
    if "multi_turn" in column and user_model is None:
        return "it needs a simulated user: give any model as --user-model (the protocol's own is gpt-4o)"
    return ""


def open_classes() -> JailedGrader:
    """The jailed process with evalscope's scenario classes.

    Raises:
        InfrastructureError: they are not installed.
    """
    folder = scenarios_folder()
    if folder is None:
        raise InfrastructureError(agent_lacks("", None))
    return JailedGrader(grader="acebench", readable=[folder], environment={"ACEBENCH_SCENARIOS": str(folder)}, batch=16)


def agent_task(column: str, row: Mapping[str, Any], gold: Mapping[str, Any]) -> Task:
    """An entry as a task.

    Raises:
        UsageError: an entry that is not as published.
    """
    try:
        scenario = Scenario(
            id=str(row["id"]),
            question=row["question"],
            functions=row["function"],
            classes=tuple(row["involved_classes"]),
            configuration=row["initial_config"],
            gold=gold[row["id"]],
            has_user="multi_turn" in column,
        )
    except KeyError as error:
        raise UsageError(f"an entry of {column} has no {error}; give an unchanged copy of ACEBench's data") from error
    target = json.dumps(scenario.gold, ensure_ascii=False)
    return Task(id=scenario.id, column=column, target=target, data={"scenario": scenario})


async def play_agent(
    task: Task, epoch: int, runtime: Runtime, classes: JailedGrader, *, sampling: Sampling, chinese: bool
) -> Sample:
    """One dialogue; its response is the messages that the classes were given and the states at the end."""
    started = time.monotonic()
    deadline = started + runtime.seconds
    scenario: Scenario = task.data["scenario"]
    policy = TranscriptPolicy(runtime.policy, scenario, chinese=chinese)
    user = (
        None
        if runtime.user is None or not scenario.has_user
        else SimulatedUser(runtime.user, scenario, max_tokens=sampling.max_tokens, deadline=deadline)
    )
    env = AceBenchEnv(scenario=scenario, classes=classes, user=user)
    played = await play(
        env,
        policy,
        sampling=sampling,
        seed=derive_seed(runtime.seed, "acebench", task.id, epoch),
        draw=runtime.draw,
        deadline=deadline,
        environment_id=task.id,
    )
    sample = sample_of(task, epoch, played)
    messages = (*policy.asked(played.opening)[:1], *(said for said in sample.messages if said.role != "system"))
    return replace(
        sample,
        messages=messages if played.opening else (),
        response=_response(env),
        reason=sample.reason or str(played.info.get("reason", "")),
        finish="length" if policy.was_cut else sample.finish,
        user_tokens_in=0 if user is None else user.tokens_in,
        user_tokens_out=0 if user is None else user.tokens_out,
        seconds=time.monotonic() - started,
    )


def grade_agent(task: Task, sample: Sample) -> Score:
    """The states at the end against those wanted; what used up its context scores 0 as it did when it was played."""
    found = json.loads(sample.response)
    if sample.reason == "context":
        return Score(value=0.0, reason="context")
    reason = found["fault"] or check_states(found["states"], task.data["scenario"].gold)
    return Score(value=float(not reason), reason=reason)


def _response(env: AceBenchEnv) -> str:
    said = {"process": env.process, "states": list(env.states or ()), "fault": env.fault}
    return json.dumps(said, ensure_ascii=False)
