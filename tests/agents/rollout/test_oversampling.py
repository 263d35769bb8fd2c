"""Over-sampling: off by default; where it is on, enough plays that ended are kept and the rest are called off."""

from __future__ import annotations

import time

import pytest

from spade_agents.errors import UsageError
from spade_agents.policy import ScriptedPolicy
from spade_agents.rollout import PlaySettings, play_group
from spade_agents.rollout.oversampling import OverSampling
from spade_agents.trajectory import Outcome
from tests.agents.rollout.worlds import ENVIRONMENT_FAULT, HOST_FAULT, SPEC, Counter, MemorySandbox


async def group_of(make, *, plays: int, seeds=(0, 1, 2, 3), straggler_seconds=0.05, retries=0):
    sandbox = MemorySandbox(make)
    settings = PlaySettings(
        seconds=20.0, retries=retries, oversampling=OverSampling(plays=plays, straggler_seconds=straggler_seconds)
    )
    group = await play_group(SPEC, sandbox, ScriptedPolicy.silent(), seeds=seeds, settings=settings)
    return group, sandbox


async def test_it_is_off_by_default():
    assert PlaySettings().oversampling == OverSampling(plays=0)
    group, sandbox = await group_of(lambda number: Counter(), plays=0)
    assert (len(group.trajectories), sandbox.attempts) == (4, 4)


async def test_as_many_as_asked_for_are_kept_and_stragglers_are_called_off_and_closed():
    started = time.monotonic()
    group, sandbox = await group_of(lambda number: Counter(step=3600.0) if number in (1, 2) else Counter(), plays=2)
    assert time.monotonic() - started < 15
    assert sandbox.attempts == 6
    assert [play.outcome for play in group.trajectories] == [Outcome.SCORED] * 4
    assert [play.seed for play in group.trajectories[:2]] == [0, 3]
    assert all(env.closed == 1 for env in sandbox.opened)


async def test_those_asked_for_are_preferred_where_all_end_in_time():
    group, _ = await group_of(lambda number: Counter(), plays=3, straggler_seconds=20)
    assert [play.seed for play in group.trajectories] == [0, 1, 2, 3]


async def test_missing_plays_are_replaced_by_valid_ones_and_never_silently_fewer():
    group, _ = await group_of(lambda number: HOST_FAULT if number < 2 else Counter(), plays=2)
    assert (len(group.trajectories), group.missing) == (4, 0)
    group, _ = await group_of(lambda number: ENVIRONMENT_FAULT if number < 4 else Counter(), plays=2)
    assert (len(group.trajectories), group.missing) == (4, 2)


async def test_the_extra_seeds_are_the_same_each_time():
    seeds = []
    for _ in range(2):
        group, _ = await group_of(lambda number: HOST_FAULT if number < 3 else Counter(), plays=3)
        seeds.append([play.seed for play in group.trajectories])
    assert seeds[0] == seeds[1] and len(set(seeds[0])) == 4


async def test_an_error_that_is_no_outcome_passes_and_leaves_nothing_open():
    def respond(conversation, source):
        raise UsageError("no such thing")

    sandbox = MemorySandbox()
    settings = PlaySettings(oversampling=OverSampling(plays=2))
    with pytest.raises(UsageError, match="no such thing"):
        await play_group(SPEC, sandbox, ScriptedPolicy(respond), seeds=range(3), settings=settings)
    assert all(env.closed == 1 for env in sandbox.opened)


def test_fewer_than_none_is_refused():
    with pytest.raises(ValueError, match="wanted 0 or more"):
        OverSampling(plays=-1)
