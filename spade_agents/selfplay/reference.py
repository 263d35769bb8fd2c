"""A reference agent: plays every environment of a pool in both arms, and leaves how hard each is for it."""

from __future__ import annotations

from spade_agents.policy import Policy
from spade_agents.rewards import mean_return, regime, regret
from spade_agents.rollout import GroupRequest, play_groups
from spade_agents.selfplay.design_settings import ReferenceTable
from spade_agents.selfplay.play_phase import instance_seeds
from spade_agents.selfplay.pool import OutcomeRow, Pool
from spade_agents.trajectory import Outcome, TrajectoryGroup
from spade_environments import EnvironmentSpec
from spade_environments.sandbox import Sandbox

__all__ = ["play_reference"]


async def play_reference(
    pool: Pool, policy: Policy, sandbox: Sandbox, settings: ReferenceTable, *, seed: int = 0
) -> int:
    """Play the environments of a pool that nobody has played yet; one row of outcomes for each.

    Both arms are played on one seed list, as in a run.

    Returns:
        How many environments were played.
    """
    specs = [pool.spec(identity) for identity in pool.ids()]
    fresh = [spec for spec in specs if not pool.outcomes(spec.id)]
    hinted = [spec for spec in fresh if spec.hint and settings.hint_plays]
    requests = [_request(spec, seed, settings.plays, hint=None) for spec in fresh]
    requests += [_request(spec, seed, settings.hint_plays, hint=spec.hint) for spec in hinted]
    groups = await play_groups(requests, sandbox, policy, settings=settings.play)
    with_hint = {group.environment_id: group for group in groups[len(fresh) :]}
    for spec, group in zip(fresh, groups[: len(fresh)], strict=True):
        pool.record(spec.id, _row(group, with_hint.get(spec.id)))
    return len(fresh)


def _request(spec: EnvironmentSpec, seed: int, count: int, *, hint: str | None) -> GroupRequest:
    return GroupRequest(spec=spec, seeds=instance_seeds(seed, spec.id, 0, count), hint=hint)


def _row(unhinted: TrajectoryGroup, hinted: TrajectoryGroup | None) -> OutcomeRow:
    returns, given = _returns(unhinted), () if hinted is None else _returns(hinted)
    arms = regret(given, returns)
    plays = [*unhinted.trajectories, *(hinted.trajectories if hinted else ())]
    faults = [play.fault or "fault" for play in plays if play.outcome is Outcome.ENVIRONMENT_FAULT]
    return OutcomeRow(
        rollout=0,
        unhinted=returns,
        hinted=given,
        win_rate=mean_return(returns),
        regret=arms.raw if arms else None,
        regime=regime(arms).value if arms else "",
        fault=faults[0] if faults else "",
    )


def _returns(group: TrajectoryGroup) -> tuple[float | None, ...]:
    return tuple(play.reward if play.outcome.is_valid else None for play in group.trajectories)
