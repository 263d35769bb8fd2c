"""The update: samples of both roles, replay where it is on, one call of the engine, new weights to the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spade_agents.rewards import designer_advantages, role_weight
from spade_agents.selfplay.design_phase import ClosedSet
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import LoopState
from spade_agents.training.advantages import agent_samples
from spade_agents.training.metrics import UpdateMetrics
from spade_agents.trajectory import TrainingSample, TrajectoryGroup

__all__ = ["Trained", "agent_batch", "designer_batch", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What an update was made of.

    Attributes:
        agent, designer: samples handed to the engine, zero advantages included; replay: how many beside them.
        raw: raw designer rewards of the set just closed, `None` where missing.
        weight: of the designer's role.
        metrics: the engine's.
    """

    agent: tuple[TrainingSample, ...]
    designer: tuple[TrainingSample, ...]
    replay: int
    raw: tuple[float | None, ...]
    weight: float | None
    metrics: UpdateMetrics


def update(resources: Resources, state: LoopState, groups: Sequence[TrajectoryGroup], closed: ClosedSet) -> Trained:
    """One update on the union of what the agent just played and the designs whose window is over.

    The policy has the new weights when this returns. Where nothing carries a gradient the engine's step still counts.
    """
    settings = resources.settings
    agent = agent_batch(settings, groups)
    designer, weight = designer_batch(settings, closed, len(agent) or settings.plays_of_a_rollout)
    replay = resources.replay_samples(state.step)
    metrics = resources.engine.update((*agent, *designer), replay=replay)
    trained_on = [sample.token_ids for sample in (*agent, *designer)] + [sample.token_ids for sample in replay]
    resources.send_weights(trained_on[0] if trained_on else ())
    return Trained(agent=agent, designer=designer, replay=len(replay), raw=closed.raw, weight=weight, metrics=metrics)


def agent_batch(settings: RunSettings, groups: Sequence[TrajectoryGroup]) -> tuple[TrainingSample, ...]:
    """The unhinted plays with advantages inside their groups; missing plays are left out."""
    truncated = settings.selfplay.mask_truncated
    return tuple(sample for group in groups for sample in agent_samples(group, mask_truncated=truncated))


def designer_batch(
    settings: RunSettings, closed: ClosedSet, agent_count: int
) -> tuple[tuple[TrainingSample, ...], float | None]:
    """The designs of the closed set with advantages inside their skills, and the weight of the role."""
    known = [(raw, design) for raw, design in zip(closed.raw, closed.designs, strict=True) if raw is not None]
    if not known:
        return (), None
    weight = role_weight(
        settings.training.role_weight,
        agent_samples=agent_count,
        designer_samples=len(known),
        period=settings.selfplay.period,
    )
    advantages = designer_advantages([raw for raw, _ in known], [design.skill for _, design in known], weight=weight)
    return (
        tuple(
            replace(design.sample, advantage=advantage)
            for (_, design), advantage in zip(known, advantages, strict=True)
            if design.sample is not None and advantage is not None
        ),
        weight,
    )
