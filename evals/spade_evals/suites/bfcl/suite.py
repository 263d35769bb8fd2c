"""`bfcl_v4`: single-turn categories with native tool calls; entries and grades come from the package itself."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.messages import Message
from spade_agents.policy.protocol import Sampling
from spade_environments import ToolSpec
from spade_evals.grading.jailed import JailedGrader
from spade_evals.suite import Missing, Runtime, SuiteData, UnscorableError, complete_task
from spade_evals.suites.bfcl.environment import VERSION, bfcl_folder, bfcl_python
from spade_evals.types import ColumnSettings, Sample, Score, Task

__all__ = ["SINGLE_TURN", "BfclSuite"]

_GROUPS = {
    "non_live": ("simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple"),
    "live": ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
    "irrelevance": ("irrelevance", "live_irrelevance", "live_relevance"),
    "multi_turn": tuple(f"multi_turn_{name}" for name in ("base", "miss_func", "miss_param", "long_context")),
    "agentic": ("memory_kv", "memory_vector", "memory_rec_sum", "web_search_base", "web_search_no_snippet"),
}
SINGLE_TURN = (*_GROUPS["non_live"], *_GROUPS["live"], *_GROUPS["irrelevance"])
_EVERY = tuple(name for names in _GROUPS.values() for name in names)
_SETTINGS = ColumnSettings(n=1, sampling=Sampling(temperature=0.0, max_tokens=4096))
_ENTRIES = Path(__file__).with_name("entries.py")


@dataclass(slots=True, kw_only=True)
class BfclSuite:
    """`part` is a group (`non_live`, `live`, `irrelevance`, `multi_turn`, `agentic`) or categories, comma-separated."""

    part: str = ""
    grading: str = f"bfcl-eval {VERSION}"
    protocol: str = "default"
    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    concurrency: int = 64
    _grader: JailedGrader | None = None

    def __post_init__(self) -> None:
        self.columns = dict.fromkeys(_chosen(self.part), _SETTINGS)
        self.weights = dict.fromkeys(self.columns, 1.0)

    @property
    def name(self) -> str:
        return f"bfcl_v4:{self.part}" if self.part else "bfcl_v4"

    def preflight(self) -> Sequence[Missing]:
        lacking = [
            Missing(column=name, what="multi-turn and agentic categories are not part of this version")
            for name in self.columns
            if name not in SINGLE_TURN
        ]
        if bfcl_python() is None:
            told = f"bfcl-eval has no environment at {bfcl_folder()}; make it: spade-eval setup bfcl_v4"
            lacking += [Missing(column=name, what=told) for name in self.columns if name in SINGLE_TURN]
        return lacking

    def load(self, columns: Sequence[str]) -> SuiteData:
        """The package's entries, in its order.

        Raises:
            InfrastructureError: the package does not run.
        """
        python = bfcl_python()
        if python is None or not columns:
            return SuiteData(tasks=())
        try:
            run = subprocess.run(
                [str(python), "-I", str(_ENTRIES), *columns], capture_output=True, check=True, env={"HOME": "/nowhere"}
            )
        except (OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", b"") or b""
            raise InfrastructureError(
                f"bfcl-eval could not list its entries: {error}: {told.decode(errors='replace')[-400:]}"
            ) from error
        rows: list[dict[str, Any]] = [json.loads(line) for line in run.stdout.splitlines()]
        digests = {name: hashlib.sha256() for name in columns}
        for row in rows:
            digests[row["category"]].update(json.dumps(row, sort_keys=True).encode())
        return SuiteData(
            tasks=tuple(_task(row) for row in rows),
            checksums={name: digest.hexdigest() for name, digest in digests.items()},
        )

    async def attempt(self, task: Task, epoch: int, runtime: Runtime) -> Sample:
        return await complete_task(self, task, epoch, runtime)

    async def grade(self, task: Task, sample: Sample) -> Score:
        python = bfcl_python()
        if python is None:
            raise InfrastructureError(f"bfcl-eval has no environment at {bfcl_folder()}; spade-eval setup bfcl_v4")
        if self._grader is None:
            self._grader = JailedGrader(grader="bfcl", python=python, start_seconds=120, batch=20_000, seconds=1)
        graded = await self._grader.grade(
            identity=task.id, category=task.column, result=_result(sample.response), function=task.data["function"],
            gold=task.data["gold"],
        )  # fmt: skip
        if graded.error:
            raise UnscorableError(f"the package's checker failed: {graded.error}")
        return Score(value=float(graded.value == ""), reason=str(graded.value))

    async def aclose(self) -> None:
        if self._grader is not None:
            await self._grader.aclose()


def _result(response: str) -> list[dict[str, str]] | str:
    """Calls as the package's handler for chat completions gives them: arguments as JSON; else the text."""
    try:
        calls = json.loads(response)["calls"]
        return [{call["name"]: json.dumps(call["arguments"])} for call in calls]
    except (ValueError, TypeError, KeyError):
        return response


def _chosen(part: str) -> tuple[str, ...]:
    if not part:
        return _EVERY
    names = [name for given in part.split(",") for name in _GROUPS.get(given, (given,)) if given]
    # `irrelevance` is a category as well as a group; the group holds the category.
    for name in names:
        if name not in _EVERY:
            raise UsageError(f"bfcl_v4 has no category {name!r}; it has {', '.join(_GROUPS)} and: {', '.join(_EVERY)}")
    return tuple(dict.fromkeys(names))


def _task(row: Mapping[str, Any]) -> Task:
    messages = tuple(Message(role=said["role"], content=said["content"]) for said in row["messages"])
    tools = tuple(
        ToolSpec(name=tool["name"], description=tool.get("description", ""), parameters=tool["parameters"])
        for tool in row["tools"]
    )
    return Task(
        id=row["id"], column=row["category"], messages=messages, tools=tools,
        target=json.dumps(row["gold"], ensure_ascii=False) if row["gold"] is not None else row["category"],
        data={"function": row["function"], "gold": row["gold"]},
    )  # fmt: skip
