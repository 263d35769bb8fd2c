"""The difficulty aimed at, by skill: fixed, or following what the agent wins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from spade_agents.designer.memory import Memory
from spade_environments import Skill

__all__ = ["TargetSettings", "target_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """The difficulty that prompts aim at, from 0 (solved at once) to 1 (out of reach).

    Attributes:
        follows: whether it moves with the agent's win rate; off in the paper's recipe.
        start: where it begins, and stays while it does not follow.
        wanted: the win rate at which it stays where it is.
        gain: how far it moves for each round of a skill, per unit of win rate away from `wanted`.
        low, high: where it stops.
    """

    follows: bool = False
    start: float = 0.5
    wanted: float = 0.5
    gain: float = 0.5
    low: float = 0.1
    high: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.start <= self.high <= 1:
            raise ValueError(f"found low {self.low:g}, start {self.start:g}, high {self.high:g}; wanted them to rise")
        if not (0 <= self.wanted <= 1 and 0 <= self.gain < math.inf):
            raise ValueError(f"found wanted {self.wanted:g}, gain {self.gain:g}; wanted a win rate, and 0 or more")


def target_of(skill: Skill, memory: Memory | None, settings: TargetSettings) -> float:
    """The target for a skill: `start`, moved once for each round that is remembered of it.

    A round moves it by gain × (mean win rate of the skill's environments in it − wanted): what is won too often makes
    the next ones harder. It follows from the memory alone, so a resumed run has the same.
    """
    if memory is None or not settings.follows:
        return settings.start
    target = settings.start
    for rates in memory.win_rates_by_round(skill).values():
        moved = target + settings.gain * (fmean(rates) - settings.wanted)
        target = min(settings.high, max(settings.low, moved))
    return target
