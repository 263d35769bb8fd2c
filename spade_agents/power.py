"""What a paired test can see: bounds of a share, power of the exact one-sided McNemar test, and the n it needs."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, comb, exp, lgamma, log, log1p, sqrt

__all__ = ["drop_p_value", "drop_power", "pairs_needed", "share_upper_bound", "smallest_visible_drop"]

_EXACT_CHANGED = 1000
"""Up to so many changed pairs the tail is summed in whole numbers."""


def drop_p_value(lost: int, gained: int) -> float:
    """Exact one-sided McNemar: chance of so many losses or more among the changed pairs if either way were even.

    8 lost and 1 gained give 10/512.
    """
    changed = lost + gained
    if changed > _EXACT_CHANGED:
        return _upper_tail(lost, changed, 0.5)
    return float(sum(comb(changed, count) for count in range(lost, changed + 1)) / 2**changed)


def share_upper_bound(successes: int, trials: int, *, level: float = 0.95) -> float:
    """Clopper and Pearson's one-sided upper bound of a share; 0 of 10 gives 1 - 0.05**(1/10), never 0.

    Raises:
        ValueError: no trials, or successes outside them.
    """
    if trials <= 0 or not 0 <= successes <= trials:
        raise ValueError(f"found {successes} successes in {trials} trials; wanted 0 <= successes <= trials, trials > 0")
    if successes == trials:
        return 1.0
    low, high = successes / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _lower_tail(successes, trials, middle) > 1 - level else (low, middle)
    return high


@lru_cache(maxsize=4096)
def drop_power(
    pairs: int, discordance: float, *, drop: float = 0.05, max_drop: float = 0.0, alpha: float = 0.05
) -> float:
    """Chance that a true drop is called one: the observed drop exceeds `max_drop` and `drop_p_value` < `alpha`.

    The number of changed pairs is binomial in `discordance`, the losses among them in (1 + drop / discordance) / 2.

    Args:
        pairs: compared.
        discordance: share of pairs that changed either way; at least `drop`.
        drop: true fall of the mean.
        max_drop: that the gate lets pass.
        alpha: level of the test.
    """
    discordance = min(max(discordance, drop), 1.0)
    lost_share = min((1 + drop / discordance) / 2, 1.0)
    middle, spread = pairs * discordance, sqrt(pairs * discordance * (1 - discordance)) + 1
    first, last = max(0, int(middle - 6 * spread)), min(pairs, ceil(middle + 6 * spread))
    return sum(
        _binomial_pmf(changed, pairs, discordance)
        * _upper_tail(_least_lost(changed, pairs, max_drop, alpha), changed, lost_share)
        for changed in range(first, last + 1)
    )


@lru_cache(maxsize=1024)
def pairs_needed(
    discordance: float, *, drop: float = 0.05, max_drop: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Pairs at which `drop_power` reaches `power`; `None` where no number does, as when `max_drop` hides the drop."""
    if max_drop >= drop:
        return None
    high = 16
    while drop_power(high, discordance, drop=drop, max_drop=max_drop, alpha=alpha) < power:
        high *= 2
        if high > 2**20:
            return None
    low = high // 2
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        seen = drop_power(middle, discordance, drop=drop, max_drop=max_drop, alpha=alpha) >= power
        low, high = (low, middle) if seen else (middle, high)
    return high


def smallest_visible_drop(
    pairs: int, discordance: float, *, max_drop: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest true drop that these pairs show with `power`; `None` where even a drop of 1 is not."""
    if drop_power(pairs, discordance, drop=1.0, max_drop=max_drop, alpha=alpha) < power:
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        seen = drop_power(pairs, discordance, drop=middle, max_drop=max_drop, alpha=alpha) >= power
        low, high = (low, middle) if seen else (middle, high)
    return high


def _least_lost(changed: int, pairs: int, max_drop: float, alpha: float) -> int:
    """The fewest losses among `changed` that the gate calls a drop; `changed` + 1 where none are enough."""
    by_test = _critical(changed, alpha)
    # lost - gained = 2 lost - changed must exceed max_drop * pairs.
    by_size = int((max_drop * pairs + changed) / 2 + 1e-9) + 1
    return max(by_test, by_size)


@lru_cache(maxsize=65536)
def _critical(changed: int, alpha: float) -> int:
    """The fewest losses with a p-value below `alpha`: tails are summed from the top, where they are smallest."""
    if 0.5**changed >= alpha:
        return changed + 1
    top = min(changed, int(changed / 2 + 5 * sqrt(changed) + 10))
    term = _binomial_pmf(top, changed, 0.5)
    tail = _upper_tail(top, changed, 0.5)
    while top > 0 and tail < alpha:
        term *= top / (changed - top + 1)
        top -= 1
        tail += term
    return top + 1


def _upper_tail(least: int, trials: int, share: float) -> float:
    """P(X >= least) for a binomial X."""
    if least <= 0:
        return 1.0
    if least > trials:
        return 0.0
    if share >= 1.0 or share <= 0.0:
        return float(share >= 1.0)
    if least <= trials * share:
        return 1.0 - _lower_tail(least - 1, trials, share)
    term = total = _binomial_pmf(least, trials, share)
    odds = share / (1 - share)
    for count in range(least, trials):
        term *= (trials - count) / (count + 1) * odds
        total += term
        if term < total * 1e-15:
            break
    return min(total, 1.0)


def _lower_tail(most: int, trials: int, share: float) -> float:
    """P(X <= most) for a binomial X with a share inside (0, 1)."""
    if most < 0:
        return 0.0
    if most > trials * share + 1:
        return 1.0 - _upper_tail(most + 1, trials, share)
    term = total = _binomial_pmf(most, trials, share)
    odds = (1 - share) / share
    for count in range(most, 0, -1):
        term *= count / (trials - count + 1) * odds
        total += term
        if term < total * 1e-15:
            break
    return min(total, 1.0)


def _binomial_pmf(count: int, trials: int, share: float) -> float:
    if share <= 0.0 or share >= 1.0:
        return float(count == (trials if share >= 1.0 else 0))
    ways = lgamma(trials + 1) - lgamma(count + 1) - lgamma(trials - count + 1)
    return exp(ways + count * log(share) + (trials - count) * log1p(-share))
