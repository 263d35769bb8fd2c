"""What a design earns: the reward types a configuration may choose, and the raw reward each gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from spade_agents.rewards.potential import Averages, PotentialState, updated

__all__ = [
    "LATE_BAND",
    "AnchorOnly",
    "Band",
    "Blend",
    "DesignResult",
    "LaterBand",
    "LearningPotential",
    "RegretOnly",
    "RewardConfig",
    "ScoredDesigns",
    "needs_hinted_plays",
    "plateau",
    "reward_at",
    "scaled_regret",
    "score_designs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Win rates that count as the right difficulty: full on [low, high], falling to 0 over `ramp` on both sides."""

    low: float = 0.4
    high: float = 0.6
    ramp: float = 0.25

    def __post_init__(self) -> None:
        if not (0.0 <= self.low <= self.high <= 1.0 and self.ramp > 0.0):
            raise ValueError(f"found {self}; wanted 0 <= low <= high <= 1 and a ramp above 0")


LATE_BAND = Band(low=0.2, high=0.4, ramp=0.2)
"""The harder band of the late phase of the 4B run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterBand:
    """A band that holds for the sets made at `rollout` and later, until another one does."""

    rollout: int
    band: Band = LATE_BAND


@dataclass(frozen=True, slots=True, kw_only=True)
class Blend:
    """The deployed reward: regret and difficulty anchor, weighted; `later` changes the band as the run goes on."""

    type: Literal["blend"] = "blend"
    regret_weight: float = 0.4
    anchor_weight: float = 0.6
    regret_scale: float = 0.15
    band: Band = field(default_factory=Band)
    later: tuple[LaterBand, ...] = ()
    rejected: float = -0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretOnly:
    """Regret alone, clipped at its scale."""

    type: Literal["regret_only"] = "regret_only"
    regret_scale: float = 0.15
    rejected: float = -0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorOnly:
    """The win-rate band alone; needs no hinted plays."""

    type: Literal["anchor_only"] = "anchor_only"
    band: Band = field(default_factory=Band)
    later: tuple[LaterBand, ...] = ()
    rejected: float = -0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPotential:
    """Distance of an environment's mean from the skill's slow average; needs no hinted plays."""

    type: Literal["learning_potential"] = "learning_potential"
    fast: float = 0.98
    slow: float = 0.85
    rejected: float = -0.2


RewardConfig: TypeAlias = Blend | RegretOnly | AnchorOnly | LearningPotential


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignResult:
    """One attempt of a set, when its turn to be trained has come.

    Attributes:
        skill: asked for.
        rejected: the certificate said no, or the environment faulted in play.
        regret: raw ρ at the regeneration rollout; `None` where an arm is missing or there were no hinted plays.
        win_rate: mean return of the valid unhinted plays over the whole window; `None` where there were none.
    """

    skill: str
    rejected: bool = False
    regret: float | None = None
    win_rate: float | None = None


class ScoredDesigns(NamedTuple):
    """Raw rewards in the order of the designs, `None` where missing, and the state for the next set."""

    raw: tuple[float | None, ...]
    state: PotentialState


def reward_at(config: RewardConfig, rollout: int) -> RewardConfig:
    """The reward of a set made at `rollout`: with the newest band that holds by then."""
    if not isinstance(config, Blend | AnchorOnly):
        return config
    due = [change for change in config.later if change.rollout <= rollout]
    return replace(config, band=max(due, key=lambda change: change.rollout).band) if due else config


def needs_hinted_plays(config: RewardConfig) -> bool:
    """Whether the reward can be computed only from hinted plays."""
    return isinstance(config, Blend | RegretOnly)


def plateau(win_rate: float, band: Band | None = None) -> float:
    """Difficulty anchor of a win rate in [0, 1]: 1 inside the band, linear to 0 over the ramp (arXiv 2608.19197).

    With the default band 0.15 → 0, 0.30 → 0.6, 0.40 → 1, 0.60 → 1, 0.70 → 0.6, 0.85 → 0.
    """
    limits = band or Band()
    outside = max(limits.low - win_rate, win_rate - limits.high, 0.0)
    return max(1.0 - outside / limits.ramp, 0.0)


def scaled_regret(regret: float, scale: float = 0.15) -> float:
    """clip(ρ / scale, 0, 1): a regret of `scale` or more earns everything."""
    return min(max(regret / scale, 0.0), 1.0)


def score_designs(
    config: RewardConfig, designs: Sequence[DesignResult], state: PotentialState | None = None
) -> ScoredDesigns:
    """Raw rewards of all attempts of one set (arXiv 2608.19197; `Blend` is 0.4·clip(ρ/0.15, 0, 1) + 0.6·plateau(w)).

    Args:
        config: which reward.
        designs: all attempts of the set; undecided ones are no samples and must not be among them.
        state: averages of the learning potential so far; returned unchanged by the other rewards.

    Returns:
        A raw reward per design, `None` where what it needs is missing: never 0.
    """
    before = state or PotentialState()
    raw = tuple(config.rejected if d.rejected else _raw(config, d, before, _rounds(designs)) for d in designs)
    if isinstance(config, LearningPotential):
        return ScoredDesigns(raw, updated(before, _rounds(designs), fast=config.fast, slow=config.slow))
    return ScoredDesigns(raw, before)


def _rounds(designs: Sequence[DesignResult]) -> dict[str, list[float]]:
    """Valid environment means by skill."""
    rounds: dict[str, list[float]] = {}
    for design in designs:
        if not design.rejected and design.win_rate is not None:
            rounds.setdefault(design.skill, []).append(design.win_rate)
    return rounds


def _raw(
    config: RewardConfig, design: DesignResult, state: PotentialState, rounds: dict[str, list[float]]
) -> float | None:
    regret, win_rate = design.regret, design.win_rate
    match config:
        case RegretOnly():
            return None if regret is None else scaled_regret(regret, config.regret_scale)
        case AnchorOnly():
            return None if win_rate is None else plateau(win_rate, config.band)
        case LearningPotential():
            if win_rate is None:
                return None
            start = sum(rounds[design.skill]) / len(rounds[design.skill])
            return abs(win_rate - state.skills.get(design.skill, Averages(fast=start, slow=start)).slow)
        case Blend():
            if regret is None or win_rate is None:
                return None
            anchor = plateau(win_rate, config.band)
            return config.regret_weight * scaled_regret(regret, config.regret_scale) + config.anchor_weight * anchor
