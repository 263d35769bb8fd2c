"""Over-sampling: more plays than asked for, the slowest called off; off by default, because it favours short plays."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from spade_agents.trajectory import Trajectory

__all__ = ["OverSampling", "first_valid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSampling:
    """How many plays more a group starts, and how long it waits for the last of them.

    Attributes:
        plays: more than asked for in each group; 0 is off.
        straggler_seconds: wall clock for plays still going once enough of the group are valid; then they are given up.
    """

    plays: int = 0
    straggler_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.plays < 0 or self.straggler_seconds < 0:
            raise ValueError(
                f"found plays = {self.plays} and straggler_seconds = {self.straggler_seconds}; wanted 0 or more"
            )


async def first_valid(
    plays: Sequence[Coroutine[Any, Any, Trajectory]], *, wanted: int, straggler_seconds: float
) -> tuple[Trajectory, ...]:
    """Run plays at once and keep `wanted` of them.

    Args:
        plays: at least `wanted`, in the order in which they are preferred.
        wanted: how many are kept: those that are valid first, in their order, then missing ones.
        straggler_seconds: see `OverSampling`.
    """
    tasks = [asyncio.ensure_future(play) for play in plays]
    try:
        pending = set(tasks)
        while pending and sum(task.result().outcome.is_valid for task in tasks if task.done()) < wanted:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if pending:
            await asyncio.wait(pending, timeout=straggler_seconds)
        found = [task.result() for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    places = sorted(range(len(found)), key=lambda place: (not found[place].outcome.is_valid, place))[:wanted]
    return tuple(found[place] for place in sorted(places))
