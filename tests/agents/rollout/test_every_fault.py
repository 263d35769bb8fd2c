"""One fault of every kind in a group of 16 plays: each is missing, and the rest earns what it earns alone."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from spade_agents.errors import InfrastructureError
from spade_agents.messages import Message
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.rewards import mean_return
from spade_agents.rollout import PlaySettings, play_group
from spade_agents.selfplay.state import SetMember
from spade_agents.training.advantages import agent_samples, group_advantages
from spade_agents.trajectory import Outcome, TrajectoryGroup
from spade_environments import EnvironmentFault, EnvironmentSpec, FaultKind, HostFault, Skill, ToolCall
from spade_environments.sandbox import Limits, LocalSandboxSettings, Sandbox, open_sandbox
from tests.agents.tiny import tokenizer

# By seed: what the program does in its second step. Every other seed is honest and pays by its parity.
PLANTED = {
    1: FaultKind.TIMEOUT_CPU,
    2: FaultKind.TIMEOUT_WALL,
    3: FaultKind.BUDGET_EPISODE,
    4: FaultKind.MEMORY,
    5: FaultKind.CRASH,
    6: FaultKind.EXIT,
    7: FaultKind.SYSCALL,
    8: FaultKind.PROTOCOL,
    9: FaultKind.ENV_ERROR,
}
PTRACE = 117 if platform.machine() == "aarch64" else 101
# Faults of loading and of the host, which no program brings about by itself, are raised where it is opened.
AT_OPEN = (
    EnvironmentFault(FaultKind.REJECT, "load", "planted"),
    HostFault(FaultKind.SANDBOX_SETUP, "load", "planted"),
    HostFault(FaultKind.HOST_FAULT, "load", "planted"),
)
SOURCE = f"""
import ctypes, os, select
from spade_environments import TextEnv


class Faulty(TextEnv):
    max_turns = 25

    def reset(self, seed):
        self.seed, self.steps = seed, 0
        return f"seed {{seed}}", {{}}

    def step(self, action):
        self.steps += 1
        if self.steps > 1:
            self.go_wrong(self.seed)
        return "ok", float(self.seed % 2), self.steps == 3 and self.seed != 3, False, {{}}

    def go_wrong(self, seed):
        if seed == 1:
            while True:
                pass
        if seed == 2:
            select.select([], [], [])
        if seed == 3:
            for _ in range(4_000_000):
                pass
        if seed == 4:
            bytearray(64 << 30)
        if seed == 5:
            ctypes.string_at(0)
        if seed == 6:
            os._exit(0)
        if seed == 7:
            ctypes.CDLL(None).syscall({PTRACE}, 0, 0, 0, 0)
        if seed == 8:
            os.write(3, (2).to_bytes(4, "big") + b"{{}}")
        if seed == 9:
            raise KeyError("planted")

    def solution(self):
        return ["go"] * 3
"""
SPEC = EnvironmentSpec(name="faulty", source=SOURCE, skill=Skill.ERROR_RECOVERY)
LIMITS = Limits(step_cpu=0.4, episode_cpu=1.0, wall_factor=0.0, wall_floor=8.0)
SEEDS = (1, 10, 2, 3, 11, 4, 5, 6, 12, 7, 8, 9, 13, 100, 101, 102)
PLAY = PlaySettings(retries=0, concurrency=1)


class FaultsAtOpen:
    """The sandbox, in which every opening from the 14th on meets a fault."""

    def __init__(self, inner: Sandbox) -> None:
        self.inner, self.opened = inner, 0

    async def open(self, spec):
        self.opened += 1
        if self.opened > len(SEEDS) - len(AT_OPEN):
            raise AT_OPEN[self.opened - 1 - (len(SEEDS) - len(AT_OPEN))]
        return await self.inner.open(spec)


def act(conversation, rng):
    return Message(role="assistant", content="", calls=(ToolCall(name="act", arguments={"action": "go"}, id="1"),))


POLICY = ScriptedPolicy(act, renderer=HermesRenderer(tokenizer(), style="compact"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def group() -> AsyncIterator[TrajectoryGroup]:
    settings = LocalSandboxSettings(limits=LIMITS, extra_modules=("ctypes", "os", "select"))
    async with open_sandbox(settings) as sandbox:
        yield await play_group(SPEC, FaultsAtOpen(sandbox), POLICY, seeds=SEEDS, settings=PLAY)


@pytest.mark.asyncio(loop_scope="module")
async def test_every_kind_of_fault_was_met_and_is_missing(group):
    faults = {play.seed: play for play in group.trajectories if not play.outcome.is_valid}
    told = {seed: (play.fault or "").partition(" in ")[0] for seed, play in faults.items()}
    assert told == {seed: kind.value for seed, kind in PLANTED.items()} | {
        100: "reject", 101: "sandbox_setup", 102: "host_fault",
    }  # fmt: skip
    assert set(told.values()) == {kind.value for kind in FaultKind}
    ours = {seed for seed, play in faults.items() if play.outcome is Outcome.INFRASTRUCTURE_FAULT}
    assert ours == {101, 102}
    assert all(play.reward is None for play in faults.values())


@pytest.mark.asyncio(loop_scope="module")
async def test_the_rest_earns_what_it_earns_alone(group):
    rest = replace(group, trajectories=tuple(play for play in group.trajectories if play.outcome.is_valid))
    assert [play.seed for play in rest.trajectories] == [10, 11, 12, 13]
    assert (group.returns, group.missing) == ((0.0, 1.0, 0.0, 1.0), 12)
    assert group_advantages(group.returns) == pytest.approx((-1.0, 1.0, -1.0, 1.0))
    assert agent_samples(group) == agent_samples(rest)
    assert [sample.advantage for sample in agent_samples(group)] == list(group_advantages(rest.returns))
    assert mean_return(tuple(play.reward for play in group.trajectories)) == 0.5


@pytest.mark.asyncio(loop_scope="module")
async def test_alone_among_valid_plays_no_kind_of_fault_moves_an_advantage(group):
    valid = [play for play in group.trajectories if play.outcome.is_valid]
    fifteen = [replace(play, seed=place) for place, play in enumerate((valid * 4)[:15])]
    alone = agent_samples(replace(group, trajectories=tuple(fifteen)))
    for fault in (play for play in group.trajectories if not play.outcome.is_valid):
        for place in (0, 7, 15):
            with_fault = (*fifteen[:place], fault, *fifteen[place:])
            assert agent_samples(replace(group, trajectories=with_fault)) == alone


@pytest.mark.parametrize("error", [*AT_OPEN, InfrastructureError("the engine is gone")], ids=lambda e: type(e).__name__)
async def test_a_group_of_nothing_but_faults_trains_nothing_and_has_no_regret(error):
    class Failing:
        async def open(self, spec):
            raise error

    class FailingPolicy:
        info = POLICY.info

        async def complete(self, *args, **kwargs):
            raise error

    if isinstance(error, InfrastructureError):
        async with open_sandbox(LocalSandboxSettings(extra_modules=("ctypes", "os", "select"))) as sandbox:
            group = await play_group(SPEC, sandbox, FailingPolicy(), seeds=range(4), settings=PLAY)
    else:
        group = await play_group(SPEC, Failing(), POLICY, seeds=range(4), settings=PLAY)
    assert group.missing == 4
    assert agent_samples(group) == ()
    missing = (None,) * 4
    member = SetMember(spec=SPEC).played(missing, (1.0,) * 4)
    assert member.arms is None
    assert member.win_rate is None
