"""Axes of a chart: ranges, round ticks, and the mapping from values to places on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Axis", "covering", "round_ticks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A linear map from values `low`..`high` to places `start`..`end` (SVG units)."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Where `value` stands; outside the range it is held at the edge, so that nothing is drawn off the chart.

        >>> Axis(low=0, high=10, start=100, end=0).place(2.5)
        75.0
        """
        if self.high == self.low:
            return (self.start + self.end) / 2
        held = min(max(value, self.low), self.high)
        return self.start + (held - self.low) / (self.high - self.low) * (self.end - self.start)


def round_ticks(low: float, high: float, *, at_most: int = 6, whole: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten inside `low`..`high`, at most so many; `whole` for counts.

    >>> round_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> round_ticks(0, 23)
    [0.0, 5.0, 10.0, 15.0, 20.0]
    """
    if high <= low:
        return [low]
    rough = max((high - low) / max(at_most - 1, 1), 1.0 if whole else 0.0)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def covering(values: Iterable[float], *, at_least: tuple[float, float] | None = None) -> tuple[float, float]:
    """The range that covers `values` (and `at_least`), widened to round numbers.

    >>> covering([0.13, 0.48])
    (0.1, 0.5)
    >>> covering([0.13], at_least=(0.0, 1.0))
    (0.0, 1.0)
    """
    found = [*values, *(at_least or ())]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    if low == high:
        low, high = (low - 0.5, high + 0.5) if at_least is None else (low, high + 1.0)
    ticks = round_ticks(low, high)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)
