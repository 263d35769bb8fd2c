"""Groups of plays: one environment in one arm on one seed list, many at once, infrastructure faults retried."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spade_agents.agent.prompts import PromptStyle
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.rollout.oversampling import OverSampling, first_valid
from spade_agents.rollout.rollout import play
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Outcome, Trajectory, TrajectoryGroup
from spade_environments import Action, Env, EnvironmentFault, EnvironmentSpec, HostFault

__all__ = ["GroupRequest", "PlaySettings", "PrivilegedEnv", "Sandbox", "play_group", "play_groups"]


class PrivilegedEnv(Env, Protocol):
    """An episode that also tells its gold actions."""

    async def solution(self) -> tuple[Action, ...]: ...


class Sandbox(Protocol):
    """What plays need of a sandbox."""

    async def open(self, spec: EnvironmentSpec) -> PrivilegedEnv: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    """How groups are played.

    Attributes:
        sampling: of every completion.
        style: of the agent's prompts; without it, that of the policy's renderer.
        seconds: wall-clock limit of one play, teardown included, from the moment it starts.
        concurrency: plays alive at once, over all groups.
        retries: how often a play that met an infrastructure fault is played again.
        oversampling: plays beyond those asked for, and when the slowest are called off; off by default.
    """

    sampling: Sampling = field(default_factory=Sampling)
    style: PromptStyle | None = None
    seconds: float = 300.0
    concurrency: int = 64
    retries: int = 2
    oversampling: OverSampling = field(default_factory=OverSampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """One group to play; with a hint it is the hinted arm. `draw` tells repetitions on the same seeds apart."""

    spec: EnvironmentSpec
    seeds: tuple[int, ...]
    hint: str | None = None
    draw: int = 0


async def play_group(
    spec: EnvironmentSpec,
    sandbox: Sandbox,
    policy: Policy,
    *,
    seeds: Sequence[int],
    hint: str | None = None,
    draw: int = 0,
    settings: PlaySettings | None = None,
) -> TrajectoryGroup:
    """Play one environment once on each of `seeds`; trajectories are in the order of the seeds."""
    request = GroupRequest(spec=spec, seeds=tuple(seeds), hint=hint, draw=draw)
    (group,) = await play_groups([request], sandbox, policy, settings=settings)
    return group


async def play_groups(
    requests: Sequence[GroupRequest], sandbox: Sandbox, policy: Policy, *, settings: PlaySettings | None = None
) -> tuple[TrajectoryGroup, ...]:
    """Play many groups at once, `settings.concurrency` plays at a time; groups are in the order of the requests.

    A play that meets an infrastructure fault is played again, same seeds, `settings.retries` times; then it stands in
    its group as missing. With over-sampling a group holds the plays that ended first, still as many as it has seeds.
    """
    chosen = settings or PlaySettings()
    gate = asyncio.Semaphore(chosen.concurrency)

    async def gated(request: GroupRequest, seed: int) -> Trajectory:
        async with gate:
            return await _play_until_valid(request, seed, sandbox, policy, chosen)

    try:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(_plays_of(request, gated, chosen.oversampling)) for request in requests]
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return tuple(
        TrajectoryGroup(
            environment_id=request.spec.id,
            hinted=request.hint is not None,
            trajectories=task.result(),
        )
        for request, task in zip(requests, started, strict=True)
    )


async def _plays_of(
    request: GroupRequest,
    gated: Callable[[GroupRequest, int], Coroutine[Any, Any, Trajectory]],
    oversampling: OverSampling,
) -> tuple[Trajectory, ...]:
    """The plays of one group, in the order of its seeds; more are started where over-sampling asks for it."""
    more = (derive_seed("oversample", request.spec.id, n, *request.seeds) for n in range(oversampling.plays))
    plays = [gated(request, seed) for seed in (*request.seeds, *more)]
    if not oversampling.plays:
        try:
            async with asyncio.TaskGroup() as tasks:
                started = [tasks.create_task(play) for play in plays]
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        return tuple(task.result() for task in started)
    return await first_valid(plays, wanted=len(request.seeds), straggler_seconds=oversampling.straggler_seconds)


async def _play_until_valid(
    request: GroupRequest, seed: int, sandbox: Sandbox, policy: Policy, settings: PlaySettings
) -> Trajectory:
    trajectory = await _play_once(request, seed, sandbox, policy, settings)
    retries = 0
    while trajectory.outcome is Outcome.INFRASTRUCTURE_FAULT and retries < settings.retries:
        retries += 1
        trajectory = await _play_once(request, seed, sandbox, policy, settings)
    return replace(trajectory, counters={**trajectory.counters, "retries": retries}) if retries else trajectory


async def _play_once(
    request: GroupRequest, seed: int, sandbox: Sandbox, policy: Policy, settings: PlaySettings
) -> Trajectory:
    deadline = time.monotonic() + settings.seconds
    try:
        async with asyncio.timeout(settings.seconds):
            player = await _with_solution(policy, request.spec, seed, sandbox)
            env = await sandbox.open(request.spec)
    except (EnvironmentFault, HostFault, TimeoutError) as fault:
        outcome = Outcome.ENVIRONMENT_FAULT if isinstance(fault, EnvironmentFault) else Outcome.INFRASTRUCTURE_FAULT
        return Trajectory(
            environment_id=request.spec.id,
            seed=seed,
            hinted=request.hint is not None,
            outcome=outcome,
            reward=None,
            fault=str(fault) or "the play's deadline passed before its environment was open",
        )
    return await play(
        env,
        player,
        sampling=settings.sampling,
        seed=seed,
        hint=request.hint,
        style=settings.style,
        deadline=deadline,
        environment_id=request.spec.id,
        draw=request.draw,
    )


async def _with_solution(policy: Policy, spec: EnvironmentSpec, seed: int, sandbox: Sandbox) -> Policy:
    """The policy itself, or for one that plays gold, the gold of this instance, computed in a child of its own."""
    if not isinstance(policy, ScriptedPolicy) or not policy.needs_solution:
        return policy
    env = await sandbox.open(spec)
    try:
        await env.reset(seed)
        return policy.with_solution(await env.solution())
    finally:
        await env.aclose()
