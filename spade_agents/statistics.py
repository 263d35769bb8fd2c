"""Intervals and paired tests, in plain Python: how sure a number is, and whether two of them differ."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, sqrt
from statistics import NormalDist
from typing import TypeVar

__all__ = [
    "Interval",
    "McNemar",
    "bootstrap_mean",
    "mcnemar",
    "paired_difference",
    "wilson",
]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its confidence interval.

    Attributes:
        level: share of such intervals that hold the truth.
        n: valid values (or trials, or pairs) behind it.
        missing: values left out because they have no outcome.
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    missing: int = 0

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside, for a difference."""
        return self.low > 0.0 or self.high < 0.0


def wilson(successes: int, trials: int, *, level: float = 0.95) -> Interval | None:
    """Wilson's score interval of a share; honest near 0 and 1 and for few trials, but only for independent ones.

    Returns:
        `None` without trials.

    Raises:
        ValueError: more successes than trials, or fewer than none.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"found {successes} successes in {trials} trials; wanted 0 <= successes <= trials")
    if trials == 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    low, high = (
        (max(middle - half, 0.0) if successes else 0.0),
        (min(middle + half, 1.0) if successes < trials else 1.0),
    )
    return Interval(estimate=share, low=low, high=high, level=level, n=trials)


def bootstrap_mean(
    values: Mapping[K, Sequence[float | None]], *, rng: random.Random, resamples: int = 2000, level: float = 0.95
) -> Interval | None:
    """Mean over all values with a percentile interval that resamples clusters whole.

    Plays of one environment resemble each other; taking environments, not plays, as the unit keeps the interval honest.
    Where every value is 0, or every one 1, resampling sees no spread: Wilson's interval over the clusters stands in.

    Args:
        values: by cluster (environment id); `None` where a play is missing, left out and counted.
        rng: decides the resamples.
        resamples: bootstrap draws.
        level: of the interval.

    Returns:
        `None` with fewer than two clusters that hold a valid value: their spread cannot be seen.
    """
    valid = [[value for value in cluster if value is not None] for cluster in values.values()]
    sums = [(sum(cluster), len(cluster)) for cluster in valid if cluster]
    everything = sum(len(cluster) for cluster in values.values())
    found = _resampled(sums, everything=everything, rng=rng, resamples=resamples, level=level)
    if found is None or {value for cluster in valid for value in cluster} not in ({0.0}, {1.0}):
        return found
    alike = wilson(len(sums) if found.estimate else 0, len(sums), level=level)
    return replace(found, low=alike.low, high=alike.high) if alike else found


def paired_difference(
    before: Sequence[float | None],
    after: Sequence[float | None],
    *,
    rng: random.Random,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval | None:
    """Mean of after − before over the same plays, with a percentile interval that resamples clusters whole.

    Args:
        before: one value per play, `None` where missing.
        after: of the same plays in the same order.
        rng: decides the resamples.
        clusters: each play's environment; by default each pair is its own.
        resamples: bootstrap draws.
        level: of the interval.

    Returns:
        `None` with fewer than two clusters that hold a pair without a missing side.

    Raises:
        ValueError: the sequences differ in length.
    """
    keys = range(len(before)) if clusters is None else clusters
    pairs: dict[Hashable, list[float]] = {}
    for old, new, key in zip(before, after, keys, strict=True):
        if old is not None and new is not None:
            pairs.setdefault(key, []).append(new - old)
    sums = [(sum(cluster), len(cluster)) for cluster in pairs.values()]
    return _resampled(sums, everything=len(before), rng=rng, resamples=resamples, level=level)


def _resampled(
    sums: Sequence[tuple[float, int]], *, everything: int, rng: random.Random, resamples: int, level: float
) -> Interval | None:
    """Percentile bootstrap of a pooled mean from clusters' sums and counts."""
    if len(sums) < 2:
        return None
    means = sorted(_pooled(rng.choices(sums, k=len(sums))) for _ in range(resamples))
    tail = (1 - level) / 2
    n = sum(count for _, count in sums)
    return Interval(
        estimate=_pooled(sums),
        low=_quantile(means, tail),
        high=_quantile(means, 1 - tail),
        level=level,
        n=n,
        missing=everything - n,
    )


def _pooled(sums: Iterable[tuple[float, int]]) -> float:
    total, count = 0.0, 0
    for value, weight in sums:
        total += value
        count += weight
    return total / count


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """The exact test of paired successes.

    Attributes:
        gained: plays lost before and won after.
        lost: plays won before and lost after.
        p_value: two-sided, of an even chance that a changed play was gained.
        missing: pairs left out.
    """

    gained: int
    lost: int
    p_value: float
    missing: int = 0


def mcnemar(
    before: Sequence[float | None], after: Sequence[float | None], *, won: Callable[[float], bool] = lambda r: r >= 1.0
) -> McNemar:
    """McNemar's exact test on the same plays before and after; 1 and 8 changed plays give p = 20/512.

    Args:
        before: returns, `None` where missing: such pairs are left out and counted.
        after: of the same plays in the same order.
        won: which returns count as a success.

    Raises:
        ValueError: the sequences differ in length.
    """
    pairs = [
        (won(old), won(new)) for old, new in zip(before, after, strict=True) if old is not None and new is not None
    ]
    gained, lost = pairs.count((False, True)), pairs.count((True, False))
    changed = gained + lost
    tail = sum(comb(changed, count) for count in range(min(gained, lost) + 1))
    p_value = min(2 * tail / 2**changed, 1.0)
    return McNemar(gained=gained, lost=lost, p_value=p_value, missing=len(before) - len(pairs))
