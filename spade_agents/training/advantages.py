"""Advantages of the agent: returns relative to the other plays of the same environment."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

from spade_agents.trajectory import Outcome, TrainingSample, Trajectory, TrajectoryGroup

__all__ = ["STD_FLOOR", "agent_samples", "group_advantages"]

STD_FLOOR = 1e-8
"""Added to the deviation, so that a group of equal returns divides by something."""


def group_advantages(returns: Sequence[float | None]) -> tuple[float | None, ...]:
    """(r − mean) / (std + 1e-8) inside one environment's plays, population std (arXiv 2608.19197).

    Args:
        returns: one per play, `None` where the play is missing; missing plays enter neither mean nor std.

    Returns:
        An advantage per play, `None` for missing plays, and for all of them where fewer than two are valid. Exactly
        0.0 where all valid returns are equal. Returns 1, 0, 0, 1 give +1, −1, −1, +1.
    """
    valid = [value for value in returns if value is not None]
    if len(valid) < 2:
        return (None,) * len(returns)
    if min(valid) == max(valid):
        return tuple(None if value is None else 0.0 for value in returns)
    mean, deviation = fmean(valid), pstdev(valid) + STD_FLOOR
    return tuple(None if value is None else (value - mean) / deviation for value in returns)


def agent_samples(group: TrajectoryGroup, *, mask_truncated: bool = False) -> tuple[TrainingSample, ...]:
    """Training samples of the unhinted plays of one environment, with their advantages.

    Zero-advantage samples are kept here: the loss drops them, and counts them.

    Args:
        group: one environment's plays; hinted plays are never trained on.
        mask_truncated: treat plays that used up their turns, tokens or context as missing instead of a return of 0.

    Raises:
        ValueError: the group is the hinted arm.
    """
    if group.hinted:
        raise ValueError(f"environment {group.environment_id}: hinted plays are never trained on; pass the other arm")
    returns = [_return(play, mask_truncated=mask_truncated) for play in group.trajectories]
    samples = (
        play.training_sample(advantage=advantage, group=group.environment_id)
        for play, advantage in zip(group.trajectories, group_advantages(returns), strict=True)
        if advantage is not None
    )
    return tuple(sample for sample in samples if sample is not None)


def _return(play: Trajectory, *, mask_truncated: bool) -> float | None:
    if not play.outcome.is_valid or (mask_truncated and play.outcome is Outcome.AGENT_ERROR):
        return None
    return play.reward
