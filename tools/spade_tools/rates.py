"""Token buckets: how often something may happen."""

from __future__ import annotations

import time
from collections import OrderedDict

__all__ = ["FailureLog", "TokenBucket"]


class TokenBucket:
    """`rate` tokens a second, `burst` at most; starts full."""

    __slots__ = ("_burst", "_last", "_left", "_rate")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst, self._left = rate, float(burst), float(burst)
        self._last = time.monotonic()

    def take(self, now: float | None = None) -> bool:
        """Take one token; False where there is none."""
        now = time.monotonic() if now is None else now
        self._left = min(self._burst, self._left + (now - self._last) * self._rate)
        self._last = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class FailureLog:
    """Failures by address, of which each has so many a minute; a bounded number of addresses is remembered."""

    def __init__(self, per_minute: int, remembered: int = 1024) -> None:
        self._per_minute, self._remembered = per_minute, remembered
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def add(self, address: str) -> bool:
        """One more failure; False where there have been too many of late."""
        bucket = self._buckets.pop(address, None) or TokenBucket(self._per_minute / 60.0, self._per_minute)
        self._buckets[address] = bucket
        if len(self._buckets) > self._remembered:
            self._buckets.popitem(last=False)
        return bucket.take()
