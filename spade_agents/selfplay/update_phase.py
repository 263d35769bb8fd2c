"""The update: samples of both roles, replay where it is on, one call of the engine, new weights to the policy."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spade_agents.rewards import designer_advantages, role_weight
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.design_phase import ClosedSet
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import LoopState
from spade_agents.training.advantages import agent_samples
from spade_agents.training.metrics import UpdateMetrics
from spade_agents.trajectory import TrainingSample, TrajectoryGroup

__all__ = ["Trained", "agent_batch", "designer_batch", "trimmed", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What an update was made of.

    Attributes:
        agent, designer: samples of the rollout, zero advantages included; replay: how many beside them.
        raw: raw designer rewards of the set just closed, `None` where missing.
        weight: of the designer's role.
        trimmed: how many samples `training.batch_samples` left out.
        metrics: the engine's.
    """

    agent: tuple[TrainingSample, ...]
    designer: tuple[TrainingSample, ...]
    replay: int
    raw: tuple[float | None, ...]
    weight: float | None
    trimmed: int
    metrics: UpdateMetrics


def update(resources: Resources, state: LoopState, groups: Sequence[TrajectoryGroup], closed: ClosedSet) -> Trained:
    """One update on the union of what the agent just played and the designs whose window is over.

    The policy has the new weights when this returns. Where nothing carries a gradient the engine's step still counts.
    """
    settings = resources.settings
    agent = agent_batch(settings, groups)
    designer, weight = designer_batch(settings, closed, len(agent) or settings.plays_of_a_rollout)
    replay = resources.replay_samples(state.step)
    batch = trimmed(
        (*agent, *designer), settings.training.batch_samples, seed=derive_seed(settings.run.seed, "trim", state.step)
    )
    with resources.sampler_resting():
        metrics = resources.engine.update(batch, replay=replay)
    trained_on = [sample.token_ids for sample in batch] + [sample.token_ids for sample in replay]
    resources.send_weights(trained_on[0] if trained_on else ())
    return Trained(
        agent=agent,
        designer=designer,
        replay=len(replay),
        raw=closed.raw,
        weight=weight,
        trimmed=len(agent) + len(designer) - len(batch),
        metrics=metrics,
    )


def agent_batch(settings: RunSettings, groups: Sequence[TrajectoryGroup]) -> tuple[TrainingSample, ...]:
    """The unhinted plays with advantages inside their groups; missing plays are left out."""
    truncated = settings.selfplay.mask_truncated
    return tuple(sample for group in groups for sample in agent_samples(group, mask_truncated=truncated))


def trimmed(samples: Sequence[TrainingSample], most: int, *, seed: int) -> tuple[TrainingSample, ...]:
    """At most `most` of the samples that carry a gradient, chosen at random: no place in the batch is safer.

    Args:
        samples: of both roles; those of advantage 0 stay, since they cost nothing and are counted.
        most: 0 for all of them.
        seed: of the choice alone; what is chosen keeps its order.
    """
    carrying = [index for index, sample in enumerate(samples) if sample.advantage != 0.0]
    if not most or len(carrying) <= most:
        return tuple(samples)
    dropped = frozenset(carrying) - frozenset(random.Random(seed).sample(carrying, most))
    return tuple(sample for index, sample in enumerate(samples) if index not in dropped)


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
