"""Environment memory: what earlier designs were worth, and which of them to show the designer again."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from spade_agents.designer.memory_store import MemoryStore
from spade_agents.designer.memory_types import MemoryQuery, MemoryRecord, MemorySettings, Retired
from spade_agents.designer.requests import MemorySeed
from spade_agents.designer.summary import summarise
from spade_agents.errors import CheckpointError
from spade_environments import Skill
from spade_environments.certificate import MinHash

__all__ = ["Memory", "MemoryQuery", "MemoryRecord", "MemorySettings", "Retired"]


@dataclass(slots=True)
class Memory:
    """Append-only, in the order of the rollouts, so that a resumed run can cut it back to its checkpoint.

    Attributes:
        settings: what is offered.
        store: where the records are; in the process alone unless opened on a file.
    """

    settings: MemorySettings = field(default_factory=MemorySettings)
    store: MemoryStore = field(default_factory=MemoryStore.in_process)

    @classmethod
    def open(cls, path: Path, settings: MemorySettings | None = None, *, make: bool = True) -> Self:
        """The memory in an SQLite file.

        Args:
            path: of the file.
            settings: what is offered.
            make: whether it is made where it is not there.

        Raises:
            UsageError: the file cannot be opened, or is no memory.
        """
        return cls(settings or MemorySettings(), MemoryStore.open(path, make=make))

    @classmethod
    def of(cls, records: Iterable[MemoryRecord], settings: MemorySettings | None = None) -> Self:
        """A memory in the process that holds `records`."""
        memory = cls(settings or MemorySettings())
        for record in records:
            memory.add(record)
        return memory

    def add(self, record: MemoryRecord) -> None:
        """Append a record; it is on disk when this returns."""
        self.store.append(record)

    @property
    def records(self) -> list[MemoryRecord]:
        """The newest `size` records that have a win rate and no fault, oldest first: all that is offered from."""
        return self.store.newest(self.settings.size)

    def candidates(self, skill: Skill) -> list[MemoryRecord]:
        """Records of a skill with a middling win rate, one for each environment, highest regret first, unknown last."""
        settings = self.settings
        middling = [r for r in self._latest(skill) if settings.low <= r.known_win_rate <= settings.high]
        kept = [record for record in middling if not self.retired(record)]
        return sorted(kept, key=_worth, reverse=True)[: settings.top]

    def seeds(self, skill: Skill, rng: random.Random) -> tuple[MemorySeed, ...]:
        """Records to show in a prompt: `count` of the candidates, drawn at random, none too like another."""
        if not self.settings.enabled:
            return ()
        found = self.candidates(skill)
        count = min(self.settings.count, len(found))
        if self.settings.max_similarity >= 1:
            return tuple(_seed(record) for record in rng.sample(found, count))
        chosen: list[MemoryRecord] = []
        for record in rng.sample(found, len(found)):
            if len(chosen) < count and not self._resembles(record, chosen):
                chosen.append(record)
        return tuple(_seed(record) for record in chosen)

    def negatives(self, skill: Skill, rng: random.Random) -> tuple[MemorySeed, ...]:
        """Records to warn of: won nearly always or nearly never; none unless the settings ask for some."""
        settings = self.settings
        if not (settings.enabled and settings.negatives):
            return ()
        found = [
            record
            for record in self._latest(skill)
            if record.known_win_rate > settings.mastered_above or record.known_win_rate < settings.out_of_reach_below
        ]
        return tuple(_seed(record) for record in rng.sample(found, min(settings.negatives, len(found))))

    def retired(self, record: MemoryRecord) -> Retired | None:
        """Why an environment is not used again; `None` where it is."""
        settings = self.settings
        if settings.retire_faulty and (record.fault or record.environment_id in self.store.faulty()):
            return Retired.FAULT
        if record.win_rate is None:
            return None
        if settings.retire_mastered and record.win_rate > settings.mastered_above:
            return Retired.MASTERED
        if settings.retire_out_of_reach and record.win_rate < settings.out_of_reach_below:
            return Retired.OUT_OF_REACH
        return None

    def win_rates(self) -> dict[str, float]:
        """The latest win rate of each environment that is remembered."""
        return {record.environment_id: record.known_win_rate for record in self.records}

    def win_rates_by_round(self, skill: Skill) -> dict[int, list[float]]:
        """Win rates of a skill's environments by the rollout that closed their set, over all that was ever recorded."""
        return self.store.win_rates_by_round(skill)

    def query(self, query: MemoryQuery) -> list[MemoryRecord]:
        """The latest record of each environment that fits, in the order asked for."""
        found = [record for record in self.store.all() if query.fits(record)]
        latest = {record.environment_id: record for record in found}
        if query.retired is not None:
            latest = {key: r for key, r in latest.items() if (self.retired(r) is not None) == query.retired}
        ordered = sorted(latest.values(), key=query.rank, reverse=True)
        return ordered[: query.limit]

    def history(self, environment_id: str) -> list[MemoryRecord]:
        """All records of one environment, oldest first."""
        return self.store.history(environment_id)

    def mark(self) -> MemoryMark:
        """Where the memory stands, for a checkpoint."""
        return self._mark(len(self.store))

    def cut_back(self, mark: MemoryMark) -> None:
        """Forget what was recorded after a mark.

        Raises:
            CheckpointError: what was recorded before it is not there, or was changed.
        """
        found = len(self.store)
        if found < mark.rows or self._mark(mark.rows) != mark:
            raise CheckpointError(
                f"the memory {self.store.where} holds {found} records, and not the {mark.rows} that the checkpoint "
                "counts, as they were: put a whole copy back, or resume from an earlier checkpoint"
            )
        self.store.truncate(mark.rows)

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def _latest(self, skill: Skill) -> list[MemoryRecord]:
        return list({record.environment_id: record for record in self.records if record.skill == skill}.values())

    def _resembles(self, record: MemoryRecord, others: list[MemoryRecord]) -> bool:
        sketch = MinHash.of(record.source)
        return any(sketch.similarity(MinHash.of(o.source)) >= self.settings.max_similarity for o in others)

    def _mark(self, rows: int) -> MemoryMark:
        digest = hashlib.sha256()
        for line in self.store.lines(rows):
            digest.update(line)
        return MemoryMark(rows=rows, sha256=digest.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMark:
    """How many records there are, and a digest of what they say."""

    rows: int
    sha256: str


def _seed(record: MemoryRecord) -> MemorySeed:
    return MemorySeed(
        summary=summarise(record.source),
        source=record.source,
        win_rate=record.known_win_rate,
        regret=record.regret,
        environment_id=record.environment_id,
    )


def _worth(record: MemoryRecord) -> float:
    return -math.inf if record.regret is None else record.regret
