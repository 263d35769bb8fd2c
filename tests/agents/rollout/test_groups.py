"""Groups of plays: order, bounded concurrency, retries of infrastructure faults, gold by instance."""

from __future__ import annotations

import asyncio

import pytest

from spade_agents.errors import UsageError
from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rollout import EvalSummary, GroupRequest, PartSummary, PlaySettings, play_group, play_groups
from spade_agents.trajectory import Outcome
from tests.agents.rollout.worlds import ENVIRONMENT_FAULT, HOST_FAULT, SPEC, Counter, MemorySandbox

SETTINGS = PlaySettings(sampling=Sampling(), style="compact")


async def test_gold_wins_every_seed_in_the_order_of_the_seeds():
    sandbox = MemorySandbox()
    group = await play_group(SPEC, sandbox, ScriptedPolicy.gold(), seeds=[5, 2, 9, 4], settings=SETTINGS)
    assert [trajectory.seed for trajectory in group.trajectories] == [5, 2, 9, 4]
    assert group.returns == (1.0, 1.0, 1.0, 1.0)
    assert (group.environment_id, group.hinted, group.missing) == (SPEC.id, False, 0)
    assert all(env.closed == 1 for env in sandbox.opened)


async def test_a_silent_agent_never_wins_and_is_never_missing():
    group = await play_group(SPEC, MemorySandbox(), ScriptedPolicy.silent(), seeds=range(6))
    assert group.returns == (0.0,) * 6


async def test_no_more_plays_than_allowed_are_alive_at_once():
    alive, most = 0, 0

    class Counted(Counter):
        async def reset(self, seed):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)
            await asyncio.sleep(0)
            return await super().reset(seed)

        async def aclose(self):
            nonlocal alive
            alive -= 1
            await super().aclose()

    requests = [GroupRequest(spec=SPEC, seeds=(1, 2, 3)), GroupRequest(spec=SPEC, seeds=(4, 5), hint="h")]
    settings = PlaySettings(concurrency=2)
    sandbox = MemorySandbox(lambda number: Counted())
    groups = await play_groups(requests, sandbox, ScriptedPolicy.silent(), settings=settings)
    assert most == 2
    assert [(len(group.trajectories), group.hinted) for group in groups] == [(3, False), (2, True)]


async def test_an_infrastructure_fault_is_played_again_and_counted():
    sandbox = MemorySandbox(lambda number: Counter(step=HOST_FAULT) if number < 2 else Counter())
    group = await play_group(SPEC, sandbox, ScriptedPolicy.silent(), seeds=[0], settings=SETTINGS)
    (trajectory,) = group.trajectories
    assert trajectory.outcome is Outcome.SCORED
    assert trajectory.counters["retries"] == 2
    assert sandbox.attempts == 3


async def test_a_lasting_infrastructure_fault_is_reported_as_missing():
    sandbox = MemorySandbox(lambda number: HOST_FAULT)
    group = await play_group(SPEC, sandbox, ScriptedPolicy.silent(), seeds=[0, 1], settings=PlaySettings(retries=1))
    assert (group.returns, group.missing, sandbox.attempts) == ((), 2, 4)
    assert {trajectory.outcome for trajectory in group.trajectories} == {Outcome.INFRASTRUCTURE_FAULT}


async def test_an_environment_fault_is_missing_and_not_played_again():
    for make in (lambda number: ENVIRONMENT_FAULT, lambda number: Counter(step=ENVIRONMENT_FAULT)):
        sandbox = MemorySandbox(make)
        group = await play_group(SPEC, sandbox, ScriptedPolicy.silent(), seeds=[0])
        assert (group.missing, sandbox.attempts) == (1, 1)
        assert group.trajectories[0].outcome is Outcome.ENVIRONMENT_FAULT


async def test_a_play_that_cannot_open_in_time_is_an_infrastructure_fault():
    class Hanging(MemorySandbox):
        async def open(self, spec):
            await asyncio.sleep(3600)

    settings = PlaySettings(seconds=0.05, retries=0)
    group = await play_group(SPEC, Hanging(), ScriptedPolicy.silent(), seeds=[0], settings=settings)
    assert group.trajectories[0].outcome is Outcome.INFRASTRUCTURE_FAULT
    assert "deadline" in group.trajectories[0].fault


async def test_an_error_that_is_no_outcome_passes_as_itself_and_leaves_nothing_open():
    def respond(conversation, source):
        raise UsageError("no such thing")

    sandbox = MemorySandbox()
    with pytest.raises(UsageError, match="no such thing"):
        await play_group(SPEC, sandbox, ScriptedPolicy(respond), seeds=range(3))
    assert all(env.closed == 1 for env in sandbox.opened)


async def test_an_evaluation_is_any_function_that_returns_a_summary():
    async def evaluate(policy, *, step, seed):
        group = await play_group(SPEC, MemorySandbox(), policy, seeds=[seed, seed + 1])
        part = PartSummary(plays=2, missing=group.missing, win_rate=sum(group.returns) / 2, low=0.0, high=1.0)
        return EvalSummary(step=step, parts={"known": part})

    summary = await evaluate(ScriptedPolicy.gold(), step=3, seed=0)
    assert (summary.step, summary.parts["known"].win_rate) == (3, 1.0)
