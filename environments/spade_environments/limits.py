"""The limits of one episode, kept by the host."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Limits"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one episode may use; CPU is read from the child's own clock, from outside.

    Attributes:
        step_cpu: CPU seconds of one step; kept to within a tenth of a second, as every CPU limit is.
        load_cpu: CPU seconds of loading, of a reset and of the gold solution, each.
        episode_cpu: CPU seconds of the whole episode.
        wall_factor: a request's wall limit as a multiple of its CPU limit.
        wall_floor: and its least, in seconds: machine load must not look like a slow environment.
        episode_wall: seconds spent waiting for replies, over the whole episode.
        memory: bytes beyond what a child starts with.
        total_memory: resident bytes of all live children together.
        reply: bytes of one reply.
        observation: characters of one observation.
        error: characters of an error text.
        source: bytes of an environment's source.
    """

    step_cpu: float = 1.0
    load_cpu: float = 3.0
    episode_cpu: float = 20.0
    wall_factor: float = 10.0
    wall_floor: float = 10.0
    episode_wall: float = 300.0
    memory: int = 256 * _MIB
    total_memory: int = 4096 * _MIB
    reply: int = 256 * 1024
    observation: int = 32_000
    error: int = 500
    source: int = 256 * 1024

    def cpu(self, operation: str) -> float:
        """CPU seconds of one request."""
        return self.step_cpu if operation == "step" else self.load_cpu

    @property
    def kernel_cpu(self) -> int:
        """Whole CPU seconds after which the kernel itself ends a child, well behind the host's own clock.

        The kernel counts in ticks, and by up to a fifth more than the clock that the host reads.
        """
        return math.ceil(1.5 * self.episode_cpu) + 1

    def wall(self, operation: str) -> float:
        """Wall seconds of one request."""
        return max(self.wall_floor, self.wall_factor * self.cpu(operation))
