"""The update: samples of both roles, replay where it is on, one call of the engine, and the new weights to the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spade_agents.rewards import designer_advantages, role_weight
from spade_agents.selfplay.design_phase import ClosedSet
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import LoopState
from spade_agents.training.advantages import agent_samples
from spade_agents.training.engine import UpdateReport
from spade_agents.trajectory import TrainingSample, TrajectoryGroup

__all__ = ["Trained", "agent_batch", "designer_batch", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What an update was made of.

    Attributes:
        step: optimiser updates done so far, this one included.
        agent, designer, replay: samples handed to the engine, zero advantages included.
        raw: raw designer rewards of the set just closed, `None` where missing.
        weight: of the designer's role.
        report: the engine's, or `None` where there was nothing to train on.
    """

    step: int
    agent: tuple[TrainingSample, ...] = ()
    designer: tuple[TrainingSample, ...] = ()
    replay: int = 0
    raw: tuple[float | None, ...] = ()
    weight: float | None = None
    report: UpdateReport | None = None


def update(resources: Resources, state: LoopState, groups: Sequence[TrajectoryGroup], closed: ClosedSet) -> Trained:
    """One update on the union of what the agent just played and the designs whose window is over.

    The policy gets the new weights before this returns; where there is nothing to train on, it keeps the old ones.
    """
    settings = resources.settings
    agent = agent_batch(settings, groups)
    designer, weight = designer_batch(settings, closed, len(agent) or resources.settings.plays_of_a_rollout)
    replay = resources.replay_samples(state.step)
    trained = Trained(
        step=state.step, agent=agent, designer=designer, replay=len(replay), raw=closed.raw, weight=weight
    )
    if not any(sample.advantage for sample in (*agent, *designer)) and not replay:
        return trained
    report = resources.engine.update((*agent, *designer), replay=replay)
    resources.send_weights(state.step + 1)
    return replace(trained, step=state.step + 1, report=report)


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
