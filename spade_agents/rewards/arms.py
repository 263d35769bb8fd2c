"""The two arms of an environment: its regret, and the regime it lies in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

__all__ = ["Regime", "RegimeThresholds", "Regret", "mean_return", "regime", "regime_shares", "regret"]


def mean_return(returns: Iterable[float | None]) -> float | None:
    """Mean of the valid returns, missing plays (`None`) left out; `None` where no play is valid."""
    valid = [value for value in returns if value is not None]
    return fmean(valid) if valid else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """The two arm means of one environment and their difference.

    Attributes:
        hinted: mean return with the hint, over the seeds both arms share.
        unhinted: mean return without it, over the same seeds.
    """

    hinted: float
    unhinted: float

    @property
    def raw(self) -> float:
        """The difference as it is; in practice it dips below 0."""
        return self.hinted - self.unhinted

    @property
    def floored(self) -> float:
        """The difference, 0 where the hint misled."""
        return max(self.raw, 0.0)


def regret(hinted: Sequence[float | None], unhinted: Sequence[float | None]) -> Regret | None:
    """Estimate ρ(e) = mean return with hint − mean return without (arXiv 2608.19197).

    Args:
        hinted: returns by seed, `None` where the play is missing.
        unhinted: returns by seed on the same seed list; where the arms differ in length, only the seeds both have
            count, so that the arms are compared on equal instances.

    Returns:
        The arm means, or `None` where either arm has no valid play on the shared seeds.
    """
    shared = min(len(hinted), len(unhinted))
    with_hint, without = mean_return(hinted[:shared]), mean_return(unhinted[:shared])
    if with_hint is None or without is None:
        return None
    return Regret(hinted=with_hint, unhinted=without)


class Regime(StrEnum):
    """Where an environment lies for the present policy."""

    MASTERED = "mastered"
    INTRACTABLE = "intractable"
    FRONTIER = "frontier"
    MISLED = "misled"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeThresholds:
    """Arm means beyond which an environment is solved, or out of reach even with its hint."""

    mastered: float = 0.9
    intractable: float = 0.1


def regime(arms: Regret, thresholds: RegimeThresholds | None = None) -> Regime:
    """Name the regime of an environment; the first that fits, in the order of `Regime`.

    Mastered: unhinted mean above its threshold. Intractable: hinted mean below its threshold. Of the rest, frontier
    where the hint helped (ρ > 0), misled where it hurt (ρ < 0), neutral where both arms have the same mean.
    """
    limits = thresholds or RegimeThresholds()
    if arms.unhinted > limits.mastered:
        return Regime.MASTERED
    if arms.hinted < limits.intractable:
        return Regime.INTRACTABLE
    if arms.raw > 0:
        return Regime.FRONTIER
    return Regime.MISLED if arms.raw < 0 else Regime.NEUTRAL


def regime_shares(regimes: Sequence[Regime]) -> Mapping[Regime, float]:
    """Share of each regime in a round, all regimes named, summing to 1; all 0 where there is no environment."""
    counts = Counter(regimes)
    return {kind: counts[kind] / len(regimes) if regimes else 0.0 for kind in Regime}
