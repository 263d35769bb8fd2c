"""Held-out evaluation on environments: the same plays for every policy, each part reported apart."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Protocol

from spade_agents.errors import ConfigurationError
from spade_agents.policy.protocol import Policy
from spade_agents.rollout import EvalSummary, GroupRequest, PartSummary, PlaySettings, play_groups
from spade_agents.seeds import derive_seed
from spade_agents.statistics import bootstrap_mean
from spade_agents.trajectory import TrajectoryGroup
from spade_environments import EnvironmentSpec
from spade_environments.registry import catalogue
from spade_environments.sandbox import Sandbox

__all__ = ["EvaluationSettings", "HeldOut", "held_out", "part_specs", "summarise_part"]


class EvaluationSettings(Protocol):
    """What the evaluation needs of a run's `[evaluation]` table."""

    @property
    def plays(self) -> int: ...

    @property
    def parts(self) -> Mapping[str, str]: ...

    @property
    def play(self) -> PlaySettings: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """An `Evaluator` over fixed environments.

    Attributes:
        parts: environments by the name of the part.
        sandbox: where they are played.
        plays: of each part, spread evenly over its environments.
        play: sampling and limits, the same for every policy.
    """

    parts: Mapping[str, Sequence[EnvironmentSpec]]
    sandbox: Sandbox
    plays: int
    play: PlaySettings

    async def __call__(self, policy: Policy, *, step: int, seed: int) -> EvalSummary:
        """Play every part; instances and sampling depend on `seed` alone, so that policies meet the same plays."""
        requests = {name: self._requests(specs, seed) for name, specs in self.parts.items()}
        flat = [request for part in requests.values() for request in part]
        groups = iter(await play_groups(flat, self.sandbox, policy, settings=self.play))
        return EvalSummary(
            step=step,
            parts={
                name: summarise_part(self.parts[name], list(islice(groups, len(part))))
                for name, part in requests.items()
            },
        )

    def _requests(self, specs: Sequence[EnvironmentSpec], seed: int) -> list[GroupRequest]:
        """One group for each environment; the first ones have a play more where the number does not divide."""
        counts = [0] * len(specs)
        for index in islice(cycle(range(len(specs))), self.plays):
            counts[index] += 1
        return [
            GroupRequest(
                spec=spec, seeds=tuple(derive_seed(seed, "held-out", spec.id, number) for number in range(count))
            )
            for spec, count in zip(specs, counts, strict=True)
            if count
        ]


def held_out(settings: EvaluationSettings, sandbox: Sandbox) -> HeldOut:
    """The evaluator that a configuration names: `evaluation.evaluator = "spade_evals.environments:held_out"`.

    Raises:
        ConfigurationError: no part, or one whose environments cannot be found.
    """
    if not settings.parts:
        raise ConfigurationError("evaluation.parts is empty; name at least one part, such as known = 'catalogue'")
    parts = {name: part_specs(source, f"evaluation.parts.{name}") for name, source in settings.parts.items()}
    return HeldOut(parts=parts, sandbox=sandbox, plays=settings.plays, play=settings.play)


def part_specs(source: str, key: str = "source") -> tuple[EnvironmentSpec, ...]:
    """Environments by name: `catalogue`, a pool folder, or a function that returns them.

    A function is named `package.module:function`, or with words to call it with, `package.module:function(known)`.

    Raises:
        ConfigurationError: no such function, or no environments.
    """
    if source == "catalogue":
        found = catalogue()
    elif ":" in source:
        found = _called(source, key)
    else:
        from spade_agents.selfplay.pool import pool_specs

        found = pool_specs(str(Path(source)))
    if not found:
        raise ConfigurationError(f"{key} is {source!r}, which holds no environment")
    return found


def summarise_part(specs: Sequence[EnvironmentSpec], groups: Sequence[TrajectoryGroup]) -> PartSummary:
    """Win rate of one part with its 95 % interval, plays of one environment taken as a cluster.

    The interval is absent where fewer than two environments have a valid play.
    """
    skills = {spec.id: spec.skill.value for spec in specs}
    wins = {
        f"{group.environment_id[:16]}:{play.seed}": play.reward
        for group in groups
        for play in group.trajectories
        if play.outcome.is_valid and play.reward is not None
    }
    by_skill: dict[str, list[float]] = {}
    for group in groups:
        by_skill.setdefault(skills[group.environment_id], []).extend(group.returns)
    clusters = {group.environment_id: group.returns for group in groups}
    interval = bootstrap_mean(clusters, rng=random.Random(0))
    return PartSummary(
        plays=len(wins),
        missing=sum(group.missing for group in groups),
        win_rate=sum(wins.values()) / len(wins) if wins else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        by_skill={skill: sum(returns) / len(returns) for skill, returns in by_skill.items() if returns},
        wins=wins,
    )


def _called(source: str, key: str) -> tuple[EnvironmentSpec, ...]:
    """What `package.module:function` or `package.module:function(argument)` returns."""
    module, _, call = source.partition(":")
    name, _, rest = call.partition("(")
    arguments = [argument.strip() for argument in rest.removesuffix(")").split(",") if argument.strip()]
    try:
        function: Callable[..., Sequence[EnvironmentSpec]] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{key} is {source!r}, which cannot be imported: {error}") from error
    return tuple(function(*arguments))
