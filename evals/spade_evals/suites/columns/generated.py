"""Reasoning Gym's hard tasks: each epoch is another instance, generated from a fixed seed, graded by the library."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib.util
import json
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spade_agents.errors import UsageError
from spade_agents.messages import Message
from spade_evals.grading.answers import boxed, tagged
from spade_evals.grading.jailed import JailedGrader
from spade_evals.suite import UnscorableError
from spade_evals.types import Sample, Score, Task

__all__ = ["SEED", "WITHOUT_OWN_ANSWER", "ReasoningGymColumn", "instance"]

SEED = 42
_SIZE = 512
"""Instances that a task may have: epochs beyond it are refused."""

WITHOUT_OWN_ANSWER = frozenset({"graph_color", "propositional_logic", "rubiks_cube", "rush_hour"})
"""Tasks whose instances have no answer of their own; answers to them are checked, not compared."""

_LOCK = threading.Lock()
_FILE = Path(__file__).parents[1] / "reasoning_gym_hard.json"
_CODE = re.compile(r"__|\b(?:import|lambda|exec|eval|compile|open|getattr|setattr|globals|locals|vars|breakpoint)\b")
"""Several of the library's graders evaluate the answer: what looks like a program is not handed to them."""

_SYSTEM = (
    "Given a problem, your task is to answer the question by thinking step-by-step in a clear and specific manner.\n"
    "Once you have thought about the reasoning process, provide the answer in the following format:\n"
    "<answer>answer here</answer>\n"
    "Do not explain your reasoning inside the answer tags, provide only the final answer. When an example is provided, "
    "you should strictly follow the format of the output/answer in that example."
)


@dataclass(slots=True, kw_only=True)
class ReasoningGymColumn:
    """`rg_math`, `rg_algorithmic`, `rg_cognition` or `rg_logic`."""

    name: str
    _grader: JailedGrader = field(default_factory=lambda: JailedGrader(grader="reasoning_gym", seconds=20))

    def lacks(self) -> str:
        if importlib.util.find_spec("reasoning_gym") is not None:
            return ""
        return "the package reasoning-gym is not installed: pip install 'spade-agents[eval]'"

    def load(self) -> tuple[tuple[Task, ...], Mapping[str, str]]:
        content = _FILE.read_bytes()
        hard: dict[str, dict[str, Any]] = json.loads(content)
        wanted = self.name.removeprefix("rg_")
        tasks = tuple(
            Task(id=name, column=self.name, data={"parameters": row["parameters"]})
            for name, row in sorted(hard.items())
            if row["column"] == wanted
        )
        return tasks, {_FILE.name: hashlib.sha256(content).hexdigest()}

    async def opened(self, task: Task, epoch: int) -> Task:
        """The instance with the epoch's number.

        Raises:
            UnscorableError: the library cannot generate it (`knight_swap` now and then).
        """
        try:
            entry = await asyncio.to_thread(instance, task.id, epoch)
        except Exception as error:
            raise UnscorableError(f"the library could not generate instance {epoch}: {error}") from error
        messages = (Message(role="system", content=_SYSTEM), Message(role="user", content=str(entry["question"])))
        return replace(task, messages=messages, target=str(entry["answer"]), data={**task.data, "entry": entry})

    async def grade(self, task: Task, sample: Sample) -> Score:
        """A win is the library's score of 1 or more."""
        answer = tagged(sample.response)
        if answer is None:
            answer = boxed(sample.response)
        if answer is None:
            return Score(value=0.0, reason="no answer tags")
        if _CODE.search(answer):
            return Score(value=0.0, reason="the answer is a program")
        graded = await self._grader.grade(
            name=task.id,
            parameters=task.data["parameters"],
            seed=SEED,
            size=_SIZE,
            entry=task.data["entry"],
            answer=answer,
        )
        if graded.is_ours:
            raise UnscorableError(f"the library's grader failed: {graded.error}")
        if graded.error:
            return Score(value=0.0, reason=f"the library could not grade it: {graded.error}"[:200])
        return Score(value=float(graded.value >= 1.0), reason="" if graded.value >= 1.0 else "wrong")

    async def aclose(self) -> None:
        await self._grader.aclose()


@functools.lru_cache(maxsize=2048)
def instance(name: str, number: int) -> dict[str, Any]:
    """One instance of a hard task.

    Raises:
        UsageError: a number beyond those that are generated.
        Exception: whatever the library raises where it cannot generate one.
    """
    if number >= _SIZE:
        raise UsageError(f"instance {number} of {name}; at most {_SIZE} are generated: lower --n")
    # A task of it (`bf`) prints while it generates. Standard output is the caller's, and one for all threads.
    with _LOCK, contextlib.redirect_stdout(sys.stderr):
        entry: dict[str, Any] = _dataset(name)[number]
    return entry


@functools.lru_cache(maxsize=128)
def _dataset(name: str) -> Any:
    import reasoning_gym

    parameters = json.loads(_FILE.read_text(encoding="utf-8"))[name]["parameters"]
    return reasoning_gym.create_dataset(name, size=_SIZE, seed=SEED, **parameters)
