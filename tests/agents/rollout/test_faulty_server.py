"""A model server that fails on three requests in ten: the batch ends in time, and the rest is what it is alone."""

from __future__ import annotations

import re
import time

import pytest

from spade_agents.policy import ScriptedPolicy
from spade_agents.policy.endpoint import EndpointPolicy, EndpointSettings
from spade_agents.rollout import GroupRequest, PlaySettings, play_groups
from spade_agents.training.advantages import group_advantages
from spade_agents.trajectory import Outcome
from spade_environments import Observation
from tests.agents.policy.endpoint_server import FAULTS, calls, scripted_server
from tests.agents.rollout.worlds import SPEC, Counter, MemorySandbox

SECONDS = 10.0
"""Of a play: what the plays of a healthy server need on a machine that does a dozen other things."""


class Ticketed(Counter):
    """Its first observation also names the seed, by which the server knows the play."""

    async def reset(self, seed: int) -> Observation:
        first = await super().reset(seed)
        return Observation(role="user", text=f"ticket {seed}: {first.text}")


class Server:
    """Answers by `gold`; fails on three requests in ten, `faults` in turn."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        self.asked = 0
        self.hit: set[int] = set()

    def __call__(self, number, body):
        ticket = int(re.search(r"ticket (\d+)", str(body["messages"]))[1])
        self.asked += 1
        if self.asked % 10 in (2, 5, 9):
            self.hit.add(ticket)
            return self.faults[self.asked % len(self.faults)]
        return gold(body)


def gold(body):
    """The next message of a play, every third ticket's last one wrong."""
    ticket = int(re.search(r"ticket (\d+)", str(body["messages"]))[1])
    said = sum(message["role"] == "assistant" for message in body["messages"])
    if said == 0:
        return calls(("push", '{"to": "1"}'))
    if said == 1:
        return {"content": ""}
    return {"content": "wrong" if ticket % 3 == 0 else str(ticket % 2)}


async def batch(server, *, retries: int, request_seconds: float, seeds=range(16), seconds=SECONDS):
    # As many requests as plays may be in flight: a hanging one keeps its place until the play's deadline.
    endpoint = EndpointSettings(retries=retries, request_seconds=request_seconds, backoff_seconds=0.001, concurrency=64)
    policy = EndpointPolicy(server.url, "m", "", endpoint)
    settings = PlaySettings(seconds=seconds, retries=0)
    sandbox = MemorySandbox(lambda number: Ticketed())
    started = time.monotonic()
    (group,) = await play_groups([GroupRequest(spec=SPEC, seeds=tuple(seeds))], sandbox, policy, settings=settings)
    await policy.aclose()
    assert time.monotonic() - started < seconds + 5
    assert all(env.closed == 1 for env in sandbox.opened)
    return group


def expected(seed: int) -> float:
    return 0.0 if seed % 3 == 0 else 1.0


@pytest.mark.parametrize("faults", [*((fault,) for fault in FAULTS[1:]), FAULTS], ids=[*FAULTS[1:], "all of them"])
async def test_each_play_has_its_outcome_and_the_rest_the_advantages_of_the_rest_alone(faults):
    script = Server(*faults)
    async with scripted_server(script) as server:
        group = await batch(server, retries=0, request_seconds=3600)
    outcomes = {play.seed: play.outcome for play in group.trajectories}
    assert {seed for seed, outcome in outcomes.items() if outcome is Outcome.INFRASTRUCTURE_FAULT} == script.hit
    assert 4 <= len(script.hit) <= 14
    rest = [play for play in group.trajectories if play.seed not in script.hit]
    assert [(play.outcome, play.reward) for play in rest] == [(Outcome.SCORED, expected(play.seed)) for play in rest]
    assert group.missing == len(script.hit) and all(play.fault for play in group.trajectories if play.reward is None)
    advantages = group_advantages([play.reward for play in group.trajectories])
    alone = iter(group_advantages([play.reward for play in rest]))
    assert advantages == tuple(None if play.reward is None else next(alone) for play in group.trajectories)


async def test_retries_bring_every_play_through():
    script = Server("500", "empty", "html", "half")
    async with scripted_server(script) as server:
        group = await batch(server, retries=8, request_seconds=3600)
    assert [play.reward for play in group.trajectories] == [expected(play.seed) for play in group.trajectories]
    assert len(script.hit) > 4


async def test_a_server_that_hangs_for_good_costs_the_deadline_and_no_more():
    async with scripted_server(lambda number, body: "hang") as server:
        group = await batch(server, retries=3, request_seconds=3600, seeds=range(6), seconds=0.5)
    assert (group.missing, group.returns) == (6, ())
    assert all("deadline" in play.fault for play in group.trajectories)


@pytest.mark.parametrize("moment", ["reset", "step", "close"])
async def test_an_environment_that_hangs_costs_the_deadline_and_its_teardown(moment):
    hanging = {1, 4}
    sandbox = MemorySandbox(lambda number: Ticketed(**({moment: 3600.0} if number in hanging else {})))
    policy = ScriptedPolicy(lambda conversation, source: "1")
    started = time.monotonic()
    (group,) = await play_groups(
        [GroupRequest(spec=SPEC, seeds=tuple(range(6)))], sandbox, policy, settings=PlaySettings(seconds=3.0, retries=0)
    )
    assert time.monotonic() - started < 3.0 + 5 + 1
    assert {play.seed for play in group.trajectories if play.outcome is Outcome.INFRASTRUCTURE_FAULT} == hanging
    assert [play.reward for play in group.trajectories if play.seed not in hanging] == [0.0, 0.0, 1.0, 1.0]
