"""The nouns of the environment memory: records, settings, queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from spade_environments import Skill

__all__ = ["MemoryQuery", "MemoryRecord", "MemorySettings", "Retired"]

Returns = tuple[float | None, ...]


class Retired(StrEnum):
    """Why an environment is not used again."""

    FAULT = "fault"
    MASTERED = "mastered"
    OUT_OF_REACH = "out of reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How much is remembered and what is offered (paper §3.4; method constants).

    Attributes:
        enabled: off for the ablation without memory.
        size: newest records that are offered from.
        low, high: win rates between which an environment is offered as a seed.
        top: how many of the highest regret are candidates.
        count: how many of those are drawn for one prompt.
        max_similarity: from which (MinHash of syntax trees, in (0, 1]) two seeds are too alike for one prompt; 1 for no
            such rule.
        negatives: environments shown as too easy or too hard; none in the paper's recipe.
        mastered_above, out_of_reach_below: win rates at which an environment is too easy or too hard.
        retire_faulty, retire_mastered, retire_out_of_reach: what is not used again.
    """

    enabled: bool = True
    size: int = 200
    low: float = 0.15
    high: float = 0.85
    top: int = 10
    count: int = 2
    max_similarity: float = 1.0
    negatives: int = 0
    mastered_above: float = 0.9
    out_of_reach_below: float = 0.1
    retire_faulty: bool = True
    retire_mastered: bool = True
    retire_out_of_reach: bool = True

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("top", 1), ("count", 0), ("negatives", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted at least {least}")
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"found low {self.low:g}, high {self.high:g}; wanted them to rise within [0, 1]")
        if not 0 < self.max_similarity <= 1:
            raise ValueError(f"max_similarity is {self.max_similarity:g}; wanted more than 0 and at most 1")
        if not 0 <= self.out_of_reach_below <= self.mastered_above <= 1:
            found = f"found out_of_reach_below {self.out_of_reach_below:g}, mastered_above {self.mastered_above:g}"
            raise ValueError(f"{found}; wanted them to rise within [0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One environment with its outcome at a rollout; the source rides along for the designer's prompt.

    Attributes:
        environment_id, name, source, skill, domain, hint: of the environment.
        win_rate: over the window, `None` where no play has a return.
        regret: `None` where it is not known: an arm was not played, or no play of it has a return.
        rollout: at which its window closed.
        hinted, unhinted: returns of both arms at the regeneration, by seed; window: of all unhinted plays since.
        fault: why it was retired in play; empty where it was not.
        certificate: as JSON, where it is kept.
        parents: ids of the environments that its designer was shown; document: that it was grounded in.
    """

    environment_id: str
    source: str
    skill: Skill
    win_rate: float | None
    regret: float | None
    rollout: int
    name: str = ""
    domain: str = ""
    hint: str | None = None
    hinted: Returns = ()
    unhinted: Returns = ()
    window: Returns = ()
    fault: str = ""
    certificate: str | None = None
    parents: tuple[str, ...] = ()
    document: str = ""

    @property
    def known_win_rate(self) -> float:
        """The win rate of a record that has one (those that are offered do)."""
        return math.nan if self.win_rate is None else self.win_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """What to look for; `None` asks nothing.

    Attributes:
        skill, rollout: exactly these.
        low, high: win rates, both included.
        min_regret: least regret.
        retired: only retired ones, or only the others.
        order: by what the highest come first.
        limit: at most so many.
    """

    skill: Skill | None = None
    rollout: int | None = None
    low: float | None = None
    high: float | None = None
    min_regret: float | None = None
    retired: bool | None = None
    order: Literal["regret", "win_rate", "rollout"] = "regret"
    limit: int = 20

    def fits(self, record: MemoryRecord) -> bool:
        """Whether a record is asked for; one whose value is unknown fits no bound on it."""
        rate, regret = record.win_rate, record.regret
        return (
            (self.skill is None or record.skill == self.skill)
            and (self.rollout is None or record.rollout == self.rollout)
            and (self.low is None or (rate is not None and rate >= self.low))
            and (self.high is None or (rate is not None and rate <= self.high))
            and (self.min_regret is None or (regret is not None and regret >= self.min_regret))
        )

    def rank(self, record: MemoryRecord) -> float:
        """The value that the highest comes first by; an unknown one comes last."""
        value = {"regret": record.regret, "win_rate": record.win_rate, "rollout": record.rollout}[self.order]
        return -math.inf if value is None else float(value)
