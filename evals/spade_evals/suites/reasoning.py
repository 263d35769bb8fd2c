"""`reasoning`: the eight columns of the paper, each from local files or generated, graded in jails and sandboxes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from spade_agents.errors import UsageError
from spade_agents.policy.protocol import Sampling
from spade_evals.suite import Missing, Runtime, SuiteData, complete_task
from spade_evals.suites.checkpoints import trained_generators
from spade_evals.suites.columns.choice import GpqaColumn
from spade_evals.suites.columns.generated import ReasoningGymColumn
from spade_evals.suites.columns.mathematics import AimeColumn
from spade_evals.suites.columns.programs import LiveCodeBenchColumn
from spade_evals.types import ColumnSettings, Sample, Score, Task

__all__ = ["COLUMNS", "ReasoningSuite", "column_settings"]

GYM_COLUMNS = ("rg_math", "rg_algorithmic", "rg_cognition", "rg_logic")
COLUMNS = ("aime25", "aime26", "gpqa_diamond", "livecodebench_v6", *GYM_COLUMNS)

_AIME = {
    "paper": ColumnSettings(n=32, sampling=Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=32_768)),
    "release": ColumnSettings(n=64, sampling=Sampling(temperature=1.0, top_p=0.95, top_k=20, max_tokens=32_768)),
}
_GPQA = ColumnSettings(n=8, sampling=Sampling(temperature=0.7, top_p=0.95, max_tokens=32_768))
_CODE = ColumnSettings(n=1, sampling=Sampling(temperature=0.2, top_p=0.95, max_tokens=16_384))
_GYM = ColumnSettings(n=8, sampling=Sampling(temperature=0.6, top_p=0.8, top_k=20, max_tokens=8_192))


class Column(Protocol):
    """One benchmark of the suite."""

    def lacks(self) -> str:
        """What is missing and how to get it; empty where nothing is."""
        ...

    def load(self) -> tuple[tuple[Task, ...], Mapping[str, str]]:
        """Tasks, and sha256 by file."""
        ...

    async def opened(self, task: Task, epoch: int) -> Task:
        """The task as it is asked in one epoch."""
        ...

    async def grade(self, task: Task, sample: Sample) -> Score: ...

    async def aclose(self) -> None: ...


def column_settings(protocol: str) -> dict[str, ColumnSettings]:
    """The settings of every column.

    Raises:
        UsageError: no such protocol.
    """
    if protocol not in _AIME:
        raise UsageError(f"there is no protocol {protocol!r} of reasoning; wanted one of: {', '.join(_AIME)}")
    aime = _AIME[protocol]
    own = {"aime25": aime, "aime26": aime, "gpqa_diamond": _GPQA, "livecodebench_v6": _CODE}
    return {**own, **dict.fromkeys(GYM_COLUMNS, _GYM)}


@dataclass(slots=True, kw_only=True)
class ReasoningSuite:
    """All columns, or those that `part` names, comma-separated (`rg` for the four generated ones)."""

    part: str = ""
    model: str = ""
    data: Path | None = None
    protocol: str = "paper"
    seed: int = 0
    grading: str = "1"
    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    packages: tuple[str, ...] = ("math-verify", "reasoning-gym")
    concurrency: int = 64
    _sources: dict[str, Column] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chosen = _chosen(self.part)
        settings = column_settings(self.protocol)
        self.columns = {name: settings[name] for name in chosen}
        self.weights = dict.fromkeys(chosen, 1.0)
        self._sources = {name: self._column(name) for name in chosen}

    @property
    def name(self) -> str:
        return f"reasoning:{self.part}" if self.part else "reasoning"

    def preflight(self) -> Sequence[Missing]:
        lacking = ((name, column.lacks()) for name, column in self._sources.items())
        return [Missing(column=name, what=what) for name, what in lacking if what]

    def load(self, columns: Sequence[str]) -> SuiteData:
        tasks: list[Task] = []
        checksums: dict[str, str] = {}
        for name in columns:
            found, digests = self._sources[name].load()
            tasks += found
            checksums |= digests
        return SuiteData(tasks=tuple(tasks), checksums=checksums, trained_on=self._trained_on(tasks))

    def _trained_on(self, tasks: Sequence[Task]) -> dict[str, int]:
        """By generated column, how many of its tasks the model was trained on instances of."""
        known = trained_generators(self.model)
        met = Counter(
            task.column for task in tasks if task.column in GYM_COLUMNS and f"reasoning_gym/{task.id}" in known
        )
        return dict(met)

    async def attempt(self, task: Task, epoch: int, runtime: Runtime) -> Sample:
        return await complete_task(self, await self._sources[task.column].opened(task, epoch), epoch, runtime)

    async def grade(self, task: Task, sample: Sample) -> Score:
        column = self._sources[task.column]
        return await column.grade(await column.opened(task, sample.epoch), sample)

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:
            for column in self._sources.values():
                stack.push_async_callback(column.aclose)
        await asyncio.sleep(0)

    def _column(self, name: str) -> Column:
        if name.startswith("rg_"):
            return ReasoningGymColumn(name=name)
        if name.startswith("aime"):
            return AimeColumn(name=name, data=self.data)
        if name == "gpqa_diamond":
            return GpqaColumn(name=name, data=self.data, seed=self.seed)
        return LiveCodeBenchColumn(name=name, data=self.data)


def _chosen(part: str) -> tuple[str, ...]:
    if not part:
        return COLUMNS
    names = [name for given in part.split(",") for name in (GYM_COLUMNS if given == "rg" else (given,))]
    for name in names:
        if name not in COLUMNS:
            raise UsageError(f"reasoning has no column {name!r}; it has rg (four of them) and: {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(names))
