"""Running a suite: what is not in the log yet is attempted, many at once, each sample written when it is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.telemetry import ProgressReporter, SilentReporter
from spade_evals.log import EvalLog, SampleWriter
from spade_evals.suite import Missing, Runtime, Suite, SuiteData, UnscorableError, failed_sample
from spade_evals.summary import LogSummary, write_summary
from spade_evals.types import ColumnSettings, LogHeader, ModelFacts, Sample, SampleKey, SampleOutcome, Task

__all__ = ["RETRIES", "Prices", "RunOptions", "make_header", "narrowed", "run_suite"]

RETRIES = 2
"""How often an attempt that met an infrastructure error is made again before its sample says so."""

_TOLD_SECONDS = 10.0
_DRAWN_SECONDS = 0.5


class Prices(NamedTuple):
    """Of a million tokens read and written: by the model, and by the simulated user."""

    read: float
    written: float
    user_read: float = 0.0
    user_written: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a user may change about a run.

    Attributes:
        limit: tasks of each column, the first ones.
        n: repetitions, in place of the protocol's.
        max_tokens: of a completion, in place of the protocol's.
        concurrency: attempts at once, in place of the suite's.
        prices: for the cost shown.
        transcripts: whether messages are kept; a log that is committed as a baseline does without.
    """

    limit: int | None = None
    n: int | None = None
    max_tokens: int | None = None
    concurrency: int | None = None
    prices: Prices | None = None
    transcripts: bool = True


def narrowed(settings: ColumnSettings, options: RunOptions) -> ColumnSettings:
    """A column's settings with what the user changed."""
    sampling = settings.sampling
    if options.max_tokens is not None:
        sampling = replace(sampling, max_tokens=options.max_tokens)
    return ColumnSettings(n=settings.n if options.n is None else options.n, sampling=sampling)


def make_header(
    suite: Suite,
    data: SuiteData,
    tasks: Sequence[Task],
    *,
    model: ModelFacts,
    user_model: ModelFacts | None,
    seed: int,
    options: RunOptions,
    draw: int = 0,
    missing: Sequence[Missing] = (),
) -> LogHeader:
    """What `eval.json` says of a run that is about to begin."""
    left_out = {column.column: column.what for column in missing}
    ran = [name for name in suite.columns if name not in left_out]
    return LogHeader(
        suite=suite.name,
        grading=suite.grading,
        protocol=suite.protocol,
        model=model,
        user_model=user_model,
        columns={name: suite.columns[name] for name in ran},
        asked={name: sum(task.column == name for task in tasks) for name in ran},
        seed=seed,
        draw=draw,
        limit=options.limit,
        data=dict(data.checksums),
        not_run=left_out,
        trained_on=dict(data.trained_on),
        weights=dict(suite.weights),
        versions={name: _version(name) for name in ("spade-agents", *suite.packages)},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


async def run_suite(
    suite: Suite,
    log: EvalLog,
    tasks: Sequence[Task],
    runtime: Runtime,
    *,
    options: RunOptions | None = None,
    progress: ProgressReporter | None = None,
) -> LogSummary:
    """Attempt every sample that the log does not hold, or holds as an infrastructure error.

    A sample met by an infrastructure error is attempted `RETRIES` times more; then its sample says so and the run goes
    on. Samples are written as they come, so that a run which is killed loses none.

    Raises:
        UsageError: the log is of another suite, or of other tasks.
    """
    chosen = options or RunOptions()
    with log.writing() as writer:
        taken = log.samples().latest
        _refuse_strangers(log, taken, tasks, suite)
        todo = [
            (task, epoch, taken.get((task.id, epoch)))
            for task in tasks
            for epoch in range(suite.columns[task.column].n)
            if _is_open(taken.get((task.id, epoch)))
        ]
        meter = _Meter(progress or SilentReporter(), suite.name, len(todo), chosen.prices)
        gate = asyncio.Semaphore(chosen.concurrency or suite.concurrency)
        try:
            async with asyncio.TaskGroup() as group:
                for task, epoch, before in todo:
                    group.create_task(_take(suite, task, epoch, before, runtime, gate, writer, meter, chosen))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        finally:
            meter.end()
    return write_summary(log)


def _is_open(sample: Sample | None) -> bool:
    return sample is None or sample.outcome is SampleOutcome.INFRASTRUCTURE_ERROR


def _refuse_strangers(log: EvalLog, taken: Iterable[SampleKey], tasks: Sequence[Task], suite: Suite) -> None:
    known = {(task.id, epoch) for task in tasks for epoch in range(suite.columns[task.column].n)}
    strange = sorted(key for key in taken if key not in known)
    if strange:
        name, epoch = strange[0]
        raise UsageError(
            f"{log.path} holds {len(strange)} samples that these settings do not ask for, such as {name!r} epoch "
            f"{epoch}; resume with the same --suite, --limit, --n and data, or give another --out"
        )


async def _take(
    suite: Suite,
    task: Task,
    epoch: int,
    before: Sample | None,
    runtime: Runtime,
    gate: asyncio.Semaphore,
    writer: SampleWriter,
    meter: _Meter,
    options: RunOptions,
) -> None:
    async with gate:
        sample = await _attempted(suite, task, epoch, runtime)
    attempt = 0 if before is None else before.attempt + 1
    kept = sample.messages if options.transcripts else ()
    writer.append(replace(sample, attempt=attempt, messages=kept))
    meter.count(sample)


async def _attempted(suite: Suite, task: Task, epoch: int, runtime: Runtime) -> Sample:
    for _ in range(RETRIES + 1):
        started = time.monotonic()
        try:
            async with asyncio.timeout(runtime.seconds):
                sample = await suite.attempt(task, epoch, runtime)
        except (InfrastructureError, TimeoutError) as error:
            sample = replace(failed_sample(task, epoch, error), seconds=time.monotonic() - started)
        except UnscorableError as error:
            blank = failed_sample(task, epoch, error)
            sample = replace(blank, outcome=SampleOutcome.UNSCORABLE, seconds=time.monotonic() - started)
        if sample.outcome is not SampleOutcome.INFRASTRUCTURE_ERROR:
            break
    return sample


@dataclass(slots=True)
class _Meter:
    """Rate, cost and time left of a run, for a person who watches."""

    progress: ProgressReporter
    name: str
    total: int
    prices: Prices | None
    done: int = 0
    errors: int = 0
    tokens: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # as prices have them
    started: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)
    drawn: float = 0.0

    def __post_init__(self) -> None:
        self.progress.begin(self.name, self.total)

    def count(self, sample: Sample) -> None:
        """One sample more."""
        self.done += 1
        self.errors += sample.outcome is SampleOutcome.INFRASTRUCTURE_ERROR
        used = (sample.tokens_in, sample.tokens_out, sample.user_tokens_in, sample.user_tokens_out)
        self.tokens = [before + more for before, more in zip(self.tokens, used, strict=True)]
        self.progress.advance()
        now = time.monotonic()
        if now - self.drawn > _DRAWN_SECONDS:
            self.drawn = now
            self.progress.phase(self.line(now))
        if now - self.told > _TOLD_SECONDS:
            self.told = now
            self.progress.say(f"{self.name}: {self.line(now)}")

    def line(self, now: float) -> str:
        """Samples, rate, tokens, cost, errors, time left."""
        seconds = max(now - self.started, 1e-6)
        left = (self.total - self.done) * seconds / max(self.done, 1)
        parts = [
            f"{self.done}/{self.total} samples",
            f"{self.done / seconds:.2f}/s",
            f"{sum(self.tokens[:2]) / 1000:.1f}k tokens",
        ]
        if any(self.tokens[2:]):
            parts.append(f"{sum(self.tokens[2:]) / 1000:.1f}k of the user")
        if self.prices is not None:
            cost = sum(price * count for price, count in zip(self.prices, self.tokens, strict=True)) / 1e6
            parts.append(f"cost {cost:.2f}")
        if self.errors:
            parts.append(f"{self.errors} infrastructure errors")
        return ", ".join(
            [*parts, f"{int(left) // 60} min {int(left) % 60} s left" if left >= 60 else f"{left:.0f} s left"]
        )

    def end(self) -> None:
        """The last line, where a run took long enough for one."""
        now = time.monotonic()
        if self.done and now - self.started > _TOLD_SECONDS:
            self.progress.say(f"{self.name}: {self.line(now)}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
