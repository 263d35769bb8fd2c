"""The watch over live children: CPU and wall time of those at work, memory of them all."""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path
from typing import Protocol

from spade_environments.faults import FaultKind
from spade_environments.limits import Limits

__all__ = ["Watch", "Watched", "cpu_seconds", "is_asleep", "resident_bytes"]

_SWEEP = 0.05
_SLOW_SWEEP = 0.5
_PAGE = resource.getpagesize()


class Watched(Protocol):
    """A child under watch; `due` says which limit it passed, `stop` ends it."""

    def resident(self) -> int: ...

    def due(self, now: float) -> tuple[FaultKind, str] | None: ...

    def stop(self, kind: FaultKind, detail: str) -> None: ...


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, read from outside (0.6 microseconds); 0.0 once it was reaped."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def is_asleep(pid: int) -> bool:
    """Whether the process waits by its own will, rather than for a processor or a page."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "S"
    except OSError:
        return False


def resident_bytes(pid: int) -> int:
    """Resident memory that no file backs, the pages still shared with the zygote included; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE


class Watch:
    """Two timers for all children together, so that a step costs no timer of its own."""

    def __init__(self, limits: Limits) -> None:
        self.stalled = 0.0
        """Seconds in which the event loop itself stood still, since the start; no child answers for them."""
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._limits = limits
        self._live: set[Watched] = set()
        self._busy: set[Watched] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._weighing: asyncio.TimerHandle | None = None

    def add(self, child: Watched) -> None:
        self._live.add(child)
        if self._weighing is None:
            self._weighing = self._loop.call_later(_SLOW_SWEEP, self._weigh)

    def discard(self, child: Watched) -> None:
        self._live.discard(child)
        self._busy.discard(child)

    def work(self, child: Watched) -> None:
        """`child` has a request to answer."""
        self._busy.add(child)
        if self._sweeping is None:
            self._schedule()

    def rest(self, child: Watched) -> None:
        """`child` has answered."""
        self._busy.discard(child)

    def close(self) -> None:
        for timer in (self._sweeping, self._weighing):
            if timer is not None:
                timer.cancel()

    def _schedule(self) -> None:
        self._due = self._loop.time() + _SWEEP
        self._sweeping = self._loop.call_at(self._due, self._sweep)

    def _sweep(self) -> None:
        late = self._loop.time() - self._due
        if late > _SWEEP:
            self.stalled += late
        self._sweeping = None
        if self._busy:
            self._schedule()
        self._stop_due(self._busy)

    def _weigh(self) -> None:
        self._weighing = self._loop.call_later(_SLOW_SWEEP, self._weigh) if self._live else None
        self._stop_due(self._live)
        weights = {child: child.resident() for child in tuple(self._live)}
        for child, weight in weights.items():
            if weight > self._limits.memory:
                child.stop(FaultKind.MEMORY, f"{weight >> 20} MiB resident; at most {self._limits.memory >> 20}")
        total = sum(weights.values())
        while total > self._limits.total_memory and weights:
            heaviest = max(weights, key=weights.__getitem__)
            total -= weights.pop(heaviest)
            heaviest.stop(FaultKind.MEMORY, f"all episodes together passed {self._limits.total_memory >> 20} MiB")

    def _stop_due(self, children: set[Watched]) -> None:
        now = time.monotonic()
        for child in tuple(children):
            passed = child.due(now)
            if passed is not None:
                child.stop(*passed)
