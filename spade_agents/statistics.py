"""Intervals and paired tests, in plain Python: how sure a number is, and whether two of them differ."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import atan, comb, cos, isclose, pi, sin, sqrt
from statistics import NormalDist, fmean, stdev
from typing import TypeVar

__all__ = [
    "Interval",
    "McNemar",
    "bootstrap_mean",
    "clustered_mean",
    "mcnemar",
    "mean_over_runs",
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
        standard_error: of the estimate, where the method has one.
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    missing: int = 0
    standard_error: float | None = None

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
    low, high = _wilson_bounds(successes / trials, trials, level)
    return Interval(estimate=successes / trials, low=low, high=high, level=level, n=trials)


def _wilson_bounds(share: float, trials: float, level: float) -> tuple[float, float]:
    """Wilson's bounds of a share of `trials`, exactly 0 or 1 at the ends."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    spread = z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    return (max(middle - half, 0.0) if share > 0 else 0.0), (min(middle + half, 1.0) if share < 1 else 1.0)


def bootstrap_mean(
    values: Mapping[K, Sequence[float | None]],
    *,
    rng: random.Random,
    resamples: int = 2000,
    level: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Interval | None:
    """Mean over all values with a percentile interval that resamples clusters whole.

    Plays of one environment resemble each other; taking environments, not plays, as the unit keeps the interval honest.
    Where all clusters have one mean, resampling sees no spread, and the interval says how little that shows: see
    `_alike`. For returns that are all 0, or all 1, it is Wilson's over the clusters.

    Args:
        values: by cluster (environment id); `None` where a play is missing, left out and counted.
        rng: decides the resamples.
        resamples: bootstrap draws.
        level: of the interval.
        bounds: between which every value lies.

    Returns:
        `None` with fewer than two clusters that hold a valid value: their spread cannot be seen.
    """
    valid = [[value for value in cluster if value is not None] for cluster in values.values()]
    sums = [(sum(cluster), len(cluster)) for cluster in valid if cluster]
    everything = sum(len(cluster) for cluster in values.values())
    return _resampled(sums, everything=everything, rng=rng, resamples=resamples, level=level, bounds=bounds)


def clustered_mean(values: Mapping[K, Sequence[float | None]], *, level: float = 0.95) -> Interval | None:
    """Mean of values in [0, 1] with the standard error of clusters, and Wilson's interval at the size that it implies.

    The squared error is k/(k-1) times the sum over the k clusters of (sum of their deviations)², over n². Wilson's
    interval is taken at mean (1 - mean) / error² trials, so that it stays inside [0, 1]; where all values are 0, or all
    1, at k trials.

    Args:
        values: by cluster (task id); `None` where a value is missing, left out and counted.
        level: of the interval.

    Returns:
        `None` with fewer than two clusters that hold a value. 0, 1, 1, 1 as four clusters give 0.75 and an error of
        0.25.
    """
    valid = [[value for value in cluster if value is not None] for cluster in values.values()]
    held = [cluster for cluster in valid if cluster]
    count, clusters = sum(len(cluster) for cluster in held), len(held)
    if clusters < 2:
        return None
    mean = sum(sum(cluster) for cluster in held) / count
    squares = sum(sum(value - mean for value in cluster) ** 2 for cluster in held)
    error = sqrt(clusters / (clusters - 1) * squares) / count
    trials = mean * (1 - mean) / error**2 if error > 0 else float(clusters)
    low, high = _wilson_bounds(mean, trials, level)
    missing = sum(len(cluster) for cluster in values.values()) - count
    return Interval(estimate=mean, low=low, high=high, level=level, n=count, missing=missing, standard_error=error)


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

    Where the difference is the same in every cluster (nothing changed, say), resampling sees no spread, and the
    interval says how little that shows: see `_alike`.

    Args:
        before: one value in [0, 1] per play, `None` where missing.
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
    return _resampled(sums, everything=len(before), rng=rng, resamples=resamples, level=level, bounds=(-1.0, 1.0))


def _resampled(
    sums: Sequence[tuple[float, int]],
    *,
    everything: int,
    rng: random.Random,
    resamples: int,
    level: float,
    bounds: tuple[float, float],
) -> Interval | None:
    """Percentile bootstrap of a pooled mean from clusters' sums and counts."""
    if len(sums) < 2:
        return None
    estimate, n = _pooled(sums), sum(count for _, count in sums)
    if all(isclose(total / count, estimate, abs_tol=1e-12) for total, count in sums):
        low, high = _alike(estimate, len(sums), level, bounds)
    else:
        means = sorted(_pooled(rng.choices(sums, k=len(sums))) for _ in range(resamples))
        low, high = _quantile(means, (1 - level) / 2), _quantile(means, (1 + level) / 2)
    return Interval(estimate=estimate, low=low, high=high, level=level, n=n, missing=everything - n)


def _alike(value: float, clusters: int, level: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """Bounds of a mean where every cluster seen has the same one.

    That none of k clusters was another says that at most a share z²/(k + z²) of all clusters are (Wilson's upper bound
    of 0 in k); the mean of those may lie anywhere between `bounds`. Returns of 0 in 100 clusters give [0, 0.037], no
    change in 100 clusters [-0.037, 0.037].
    """
    unseen = _wilson_bounds(0.0, clusters, level)[1]
    known = (1 - unseen) * value
    return known + unseen * min(bounds[0], value), known + unseen * max(bounds[1], value)


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


def mean_over_runs(values: Sequence[float], *, level: float = 0.95) -> Interval | None:
    """Mean of one figure over independent runs, with Student's interval: runs, not their plays, are the unit.

    Two runs give an interval more than six times as wide as their spread; that is what two runs know.

    Args:
        values: one a run, such as a solve rate of each seed, or the difference of two arms on each seed.
        level: of the interval.

    Returns:
        `None` for fewer than two runs, or where all values are the same: their spread cannot be seen. 1, 2, 3 give 2
        with an interval of 2 ± 4.303 / √3.
    """
    if len(values) < 2 or len(set(values)) == 1:
        return None
    mean, error = fmean(values), stdev(values) / sqrt(len(values))
    half = _student_quantile(level, len(values) - 1) * error
    return Interval(estimate=mean, low=mean - half, high=mean + half, level=level, n=len(values), standard_error=error)


def _student_quantile(level: float, freedom: int) -> float:
    """The t with P(|T| <= t) = level, by bisection; 12.706, 4.303, 3.182 for 0.95 and 1, 2, 3 degrees of freedom."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, freedom) < level else (low, middle)
    return high


def _student_within(t: float, freedom: int) -> float:
    """P(|T| <= t) for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(freedom))
    odd = freedom % 2 == 1
    term = total = cos(angle) if odd else 1.0
    if freedom == 1:
        return 2 * angle / pi
    for factor in range(2 if odd else 1, freedom - 2, 2):
        term *= cos(angle) ** 2 * factor / (factor + 1)
        total += term
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total


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
