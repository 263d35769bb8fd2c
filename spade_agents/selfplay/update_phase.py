"""The update: samples of both roles, replay where it is on, one call of the engine, new weights to the policy."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spade_agents.errors import PolicyError
from spade_agents.rewards import designer_advantages, role_weight
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import ClosedSet, LoopState, WaitingDesign
from spade_agents.training.advantages import agent_samples
from spade_agents.training.metrics import UpdateMetrics
from spade_agents.training.samples import SupervisedSample
from spade_agents.trajectory import TrainingSample, TrajectoryGroup

__all__ = [
    "Trained",
    "Update",
    "agent_batch",
    "checked_versions",
    "designer_batch",
    "prepare_update",
    "trimmed",
    "update",
]

_AFTER: Final = "nothing of this rollout was saved; resume from the last checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What an update was made of.

    Attributes:
        agent, designer: samples of the rollout, zero advantages included; replay: how many beside them.
        raw: raw designer rewards of the set just closed, `None` where missing.
        weight: of the designer's role.
        trimmed: how many samples `training.batch_samples` left out.
        behind: how many versions the weights that sampled the plays were behind; `None` without plays.
        metrics: the engine's.
    """

    agent: tuple[TrainingSample, ...]
    designer: tuple[TrainingSample, ...]
    replay: int
    raw: tuple[float | None, ...]
    weight: float | None
    trimmed: int
    behind: int | None
    metrics: UpdateMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An update that is ready to be done: everything but the engine's work was decided.

    Attributes:
        agent, designer, raw, weight, behind: as of `Trained`.
        batch: the samples of both roles that are trained on.
        replay: samples to imitate.
    """

    agent: tuple[TrainingSample, ...]
    designer: tuple[TrainingSample, ...]
    raw: tuple[float | None, ...]
    weight: float | None
    behind: int | None
    batch: tuple[TrainingSample, ...]
    replay: tuple[SupervisedSample, ...]

    @property
    def canary(self) -> tuple[int, ...]:
        """Tokens of the kind that is trained on; none where nothing is."""
        trained_on: tuple[TrainingSample | SupervisedSample, ...] = (*self.batch, *self.replay)
        return trained_on[0].token_ids if trained_on else ()

    def trained(self, metrics: UpdateMetrics) -> Trained:
        """What it was, once it is done."""
        return Trained(
            agent=self.agent,
            designer=self.designer,
            replay=len(self.replay),
            raw=self.raw,
            weight=self.weight,
            trimmed=len(self.agent) + len(self.designer) - len(self.batch),
            behind=self.behind,
            metrics=metrics,
        )


def prepare_update(
    resources: Resources, state: LoopState, groups: Sequence[TrajectoryGroup], closed: ClosedSet
) -> Update:
    """The union of what the agent just played and the designs whose window is over, with advantages, trimmed.

    Raises:
        PolicyError: a play was sampled with weights of several versions, or of one that is too old.
    """
    settings = resources.settings
    behind = checked_versions(settings, groups, closed.designs, step=resources.engine.step)
    agent = agent_batch(settings, groups)
    designer, weight = designer_batch(settings, closed, len(agent) or settings.plays_of_a_rollout)
    return Update(
        agent=agent,
        designer=designer,
        raw=closed.raw,
        weight=weight,
        behind=behind,
        replay=resources.replay_samples(state.step),
        batch=trimmed(
            (*agent, *designer),
            settings.training.batch_samples,
            seed=derive_seed(settings.run.seed, "trim", state.step),
        ),
    )


def update(resources: Resources, state: LoopState, groups: Sequence[TrajectoryGroup], closed: ClosedSet) -> Trained:
    """One update on the union of what the agent just played and the designs whose window is over.

    The policy has the new weights when this returns. Where nothing carries a gradient the engine's step still counts.
    """
    ready = prepare_update(resources, state, groups, closed)
    with resources.sampler_resting():
        metrics = resources.engine.update(ready.batch, replay=ready.replay)
    resources.send_weights(ready.canary)
    return ready.trained(metrics)


def checked_versions(
    settings: RunSettings, groups: Sequence[TrajectoryGroup], designs: Sequence[WaitingDesign], *, step: int
) -> int | None:
    """How many versions behind the plays were sampled: 0, or 1 where the next rollout is sampled during an update.

    Designs wait for their window of k rollouts, and so may be k versions behind, and one more likewise.

    Args:
        settings: of the run.
        groups: the plays to be trained on.
        designs: to be trained with them.
        step: version of the weights that are about to be updated.

    Raises:
        PolicyError: a play mixes versions, or something is older than that, or newer than the weights.
    """
    most = int(settings.selfplay.asynchronous)
    behind = 0
    for play in (play for group in groups for play in group.trajectories):
        versions = {turn.completion.weight_version for turn in play.turns if turn.completion.token_ids}
        if len(versions) > 1:
            raise PolicyError(
                f"the play of {play.environment_id[:12]} on seed {play.seed} was sampled with weights of versions "
                f"{sorted(versions)}; wanted one: {_AFTER}"
            )
        behind = max([behind, *(_behind(version, step, most, "a play") for version in versions)])
    oldest = settings.selfplay.period + most
    for design in designs:
        if design.sample is not None:
            _behind(design.sample.weight_version, step, oldest, "a design")
    return behind if groups else None


def _behind(version: int, step: int, most: int, what: str) -> int:
    if not 0 <= step - version <= most:
        raise PolicyError(
            f"{what} was sampled with weights of version {version}, and the trainer is at {step}; wanted at most "
            f"{most} behind: {_AFTER}"
        )
    return step - version


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
