"""Environment memory: what earlier designs were worth, and which of them to show the designer again."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import msgspec

from spade_agents.designer.requests import MemorySeed
from spade_agents.designer.summary import summarise
from spade_agents.errors import CheckpointError
from spade_environments import Skill

__all__ = ["Memory", "MemoryRecord", "MemorySettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How much is remembered and what is offered (paper §3.4; method constants).

    Attributes:
        enabled: off for the ablation without memory.
        size: records kept; the oldest are evicted first.
        low, high: win rates between which an environment is offered as a seed.
        top: how many of the highest regret are candidates.
        count: how many of those are drawn for one prompt.
    """

    enabled: bool = True
    size: int = 200
    low: float = 0.15
    high: float = 0.85
    top: int = 10
    count: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One environment with its outcome at a rollout; the source rides along for the designer's prompt.

    `regret` is `None` where it is not known: an arm was not played, or no play of it has a return.
    """

    environment_id: str
    source: str
    skill: Skill
    win_rate: float
    regret: float | None
    rollout: int


@dataclass(slots=True)
class Memory:
    """Append-only by rollout, so that a resumed run can cut it back to its checkpoint."""

    settings: MemorySettings = field(default_factory=MemorySettings)
    records: list[MemoryRecord] = field(default_factory=list)

    def add(self, record: MemoryRecord) -> None:
        """Append a record; beyond `size` the oldest goes."""
        self.records.append(record)
        del self.records[: max(0, len(self.records) - self.settings.size)]

    def truncate(self, rollout: int) -> None:
        """Forget what was recorded at `rollout` or later."""
        self.records = [record for record in self.records if record.rollout < rollout]

    def candidates(self, skill: Skill) -> list[MemoryRecord]:
        """Records of a skill with a middling win rate, one for each environment, highest regret first, unknown last."""
        latest = {record.environment_id: record for record in self.records if record.skill == skill}
        middling = [r for r in latest.values() if self.settings.low <= r.win_rate <= self.settings.high]
        return sorted(middling, key=_worth, reverse=True)[: self.settings.top]

    def seeds(self, skill: Skill, rng: random.Random) -> tuple[MemorySeed, ...]:
        """Records to show in a prompt: `count` of the candidates, drawn at random."""
        if not self.settings.enabled:
            return ()
        found = self.candidates(skill)
        chosen = rng.sample(found, min(self.settings.count, len(found)))
        return tuple(
            MemorySeed(summary=summarise(r.source), source=r.source, win_rate=r.win_rate, regret=r.regret)
            for r in chosen
        )

    def to_jsonl(self) -> str:
        """One record a line."""
        return "".join(msgspec.json.encode(record).decode() + "\n" for record in self.records)

    @classmethod
    def from_jsonl(cls, text: str, settings: MemorySettings) -> Memory:
        """Read what `to_jsonl` wrote.

        Raises:
            CheckpointError: a line is no record.
        """
        # Not splitlines: a record's words may hold a line separator that JSON leaves as it is.
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            records = [msgspec.json.decode(line, type=MemoryRecord) for line in lines]
        except msgspec.DecodeError as error:
            raise CheckpointError(f"the memory cannot be read: {error}; resume from an earlier checkpoint") from error
        return cls(settings=settings, records=records)


def _worth(record: MemoryRecord) -> float:
    return -math.inf if record.regret is None else record.regret
