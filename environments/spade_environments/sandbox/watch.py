"""The watch over live children: CPU and wall time of those at work, memory of them all."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Sequence
from typing import Protocol

from spade_environments.faults import FaultKind
from spade_environments.limits import Limits

__all__ = ["SWEEP", "Watch", "Watched", "cpu_seconds", "is_asleep", "resident_bytes"]

SWEEP = 0.05
"""Seconds between two looks at the children that are at work."""
_SLOW_SWEEP = 0.5
_PAGE = resource.getpagesize()


class Watched(Protocol):
    """A child under watch: `busy` while it has to answer; `due` says which limit it passed, `stop` ends it."""

    @property
    def busy(self) -> bool: ...

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
    return _read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1] == b"S"


def resident_bytes(pid: int) -> int:
    """Resident memory that no file backs, the pages still shared with the zygote included; 0 once it is gone."""
    fields = _read(f"/proc/{pid}/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE if fields else 0


def _read(path: str) -> bytes:
    """A short file of the kernel's; nothing once its process is gone. A crowd's are read twice a second."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1024)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


class Watch:
    """Two timers for all children together, so that a step costs no timer of its own."""

    def __init__(self, limits: Limits) -> None:
        self.stalled = 0.0
        """Seconds in which the event loop itself stood still, since the start; no child answers for them."""
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._limits = limits
        self._live: set[Watched] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._weighing: asyncio.TimerHandle | None = None

    def add(self, child: Watched) -> None:
        self._live.add(child)
        if self._sweeping is None:
            self._schedule()
        if self._weighing is None:
            self._weighing = self._loop.call_later(_SLOW_SWEEP, self._weigh)

    def discard(self, child: Watched) -> None:
        self._live.discard(child)

    def close(self) -> None:
        """Stop every child, and watching."""
        for child in tuple(self._live):
            child.stop(FaultKind.HOST_FAULT, "the sandbox was closed")
        for timer in (self._sweeping, self._weighing):
            if timer is not None:
                timer.cancel()

    def _schedule(self) -> None:
        self._due = self._loop.time() + SWEEP
        self._sweeping = self._loop.call_at(self._due, self._sweep)

    def _sweep(self) -> None:
        late = self._loop.time() - self._due
        if late > SWEEP:
            self.stalled += late
        self._sweeping = None
        if self._live:
            self._schedule()
        self._stop_due([child for child in self._live if child.busy])

    def _weigh(self) -> None:
        self._weighing = self._loop.call_later(_SLOW_SWEEP, self._weigh) if self._live else None
        self._stop_due(tuple(self._live))
        weights = {child: child.resident() for child in tuple(self._live)}
        for child, weight in weights.items():
            if weight > self._limits.memory:
                child.stop(FaultKind.MEMORY, f"{weight >> 20} MiB resident; at most {self._limits.memory >> 20}")
        total = sum(weights.values())
        while total > self._limits.total_memory and weights:
            heaviest = max(weights, key=weights.__getitem__)
            total -= weights.pop(heaviest)
            heaviest.stop(FaultKind.MEMORY, f"all episodes together passed {self._limits.total_memory >> 20} MiB")

    def _stop_due(self, children: Sequence[Watched]) -> None:
        now = time.monotonic()
        for child in children:
            passed = child.due(now)
            if passed is not None:
                child.stop(*passed)
