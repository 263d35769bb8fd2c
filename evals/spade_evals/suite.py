"""What a suite is: tasks, how one is attempted, how a response is graded; and what it may use while it runs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from spade_agents.errors import ContextExhaustedError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Policy
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Completion
from spade_environments.sandbox import Sandbox, open_sandbox
from spade_evals.types import ColumnSettings, Sample, SampleOutcome, Score, Task

__all__ = ["Missing", "Runtime", "Suite", "SuiteData", "UnscorableError", "complete_task", "failed_sample"]


class UnscorableError(Exception):
    """A task that nothing can be graded against: a known fault of its data, or a checker that broke on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What a column needs and does not have, and how to get it."""

    column: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteData:
    """A suite's tasks and the checksums of what they were read from.

    Attributes:
        tasks: of every column that can run.
        checksums: sha256 by file name, or of a generated set.
        trained_on: by column, how many of its environments the model was trained on.
    """

    tasks: tuple[Task, ...]
    checksums: Mapping[str, str] = field(default_factory=dict)
    trained_on: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Runtime:
    """What attempts share: the policies, the sandbox (opened when first asked for), limits.

    Attributes:
        seed: of instances and sampling.
        draw: tells repetitions of a whole run apart: same instances, other samples.
        seconds: wall-clock limit of one attempt.
        user: simulates the user where a suite has one.
    """

    policy: Policy
    user: Policy | None = None
    seed: int = 0
    draw: int = 0
    seconds: float = 600.0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _sandbox: Sandbox | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def sandbox(self) -> Sandbox:
        """The sandbox of this evaluation."""
        async with self._lock:
            if self._sandbox is None:
                self._sandbox = await self._stack.enter_async_context(open_sandbox())
            return self._sandbox

    async def aclose(self) -> None:
        """End what was opened."""
        await self._stack.aclose()


class Suite(Protocol):
    """A benchmark.

    Attributes:
        name: as the user names it.
        grading: version of the grading.
        protocol: named variant of the settings.
        columns: settings by column, in the order of the table.
        weights: of the columns in the overall mean; empty for an unweighted one.
        packages: distributions whose versions decide a score.
        concurrency: attempts alive at once.
    """

    grading: str
    protocol: str
    columns: Mapping[str, ColumnSettings]
    weights: Mapping[str, float]
    packages: tuple[str, ...]
    concurrency: int

    @property
    def name(self) -> str: ...

    def preflight(self) -> Sequence[Missing]:
        """What is missing, by column; nothing is loaded and no token spent."""
        ...

    def load(self, columns: Sequence[str]) -> SuiteData:
        """The tasks of the columns named."""
        ...

    async def attempt(self, task: Task, epoch: int, runtime: Runtime) -> Sample:
        """One attempt; faults of policy and machine pass as `InfrastructureError`."""
        ...

    async def grade(self, task: Task, sample: Sample) -> Score:
        """The score of a sample that was taken before: no inference.

        Raises:
            UnscorableError: nothing can be graded.
        """
        ...

    async def aclose(self) -> None:
        """End worker processes."""
        ...


async def complete_task(suite: Suite, task: Task, epoch: int, runtime: Runtime) -> Sample:
    """Attempt a task that is one completion, and grade it.

    A prompt beyond the context scores 0 with reason `context`; a completion cut by its length is graded as it stands
    and has the reason `length`.
    """
    started = time.monotonic()
    settings = suite.columns[task.column]
    blank = Sample(
        id=task.id,
        epoch=epoch,
        attempt=0,
        column=task.column,
        outcome=SampleOutcome.SCORED,
        messages=task.messages,
        target=task.target,
        tags=task.tags,
    )
    try:
        completion = await runtime.policy.complete(
            Conversation(messages=task.messages, tools=task.tools),
            settings.sampling,
            seed=derive_seed(runtime.seed, "eval", task.id, epoch, runtime.draw),
            deadline=started + runtime.seconds,
        )
    except ContextExhaustedError:
        return replace(blank, score=0.0, reason="context", seconds=time.monotonic() - started)
    answer = Message(role="assistant", content=completion.text, calls=completion.calls)
    sample = replace(
        blank,
        messages=(*task.messages, answer),
        response=_response(task, completion),
        finish=completion.finish,
        tokens_in=completion.usage.prompt_tokens,
        tokens_out=completion.usage.completion_tokens,
        seconds=time.monotonic() - started,
    )
    try:
        score = await suite.grade(task, sample)
    except UnscorableError as error:
        return replace(sample, outcome=SampleOutcome.UNSCORABLE, reason=str(error))
    cut = "length" if completion.finish == "length" and score.value < 1.0 else score.reason
    return replace(sample, score=score.value, reason=cut)


def failed_sample(task: Task, epoch: int, error: Exception) -> Sample:
    """The sample of an attempt that the machine or the model server failed: an infrastructure error."""
    return Sample(
        id=task.id,
        epoch=epoch,
        attempt=0,
        column=task.column,
        outcome=SampleOutcome.INFRASTRUCTURE_ERROR,
        reason=str(error)[:500] or "the attempt's time limit passed",
        messages=task.messages,
        target=task.target,
        tags=task.tags,
    )


def _response(task: Task, completion: Completion) -> str:
    """What is graded: the text, or for a task with tools whose completion has calls, text and calls as JSON."""
    if not task.tools or completion.broken or not completion.calls:
        return completion.text
    calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in completion.calls]
    return json.dumps({"text": completion.text, "calls": calls}, ensure_ascii=False)
