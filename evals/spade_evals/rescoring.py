"""Grading again what a log holds: no inference, and only samples whose score changed are written."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from spade_agents.errors import InfrastructureError, UsageError
from spade_evals.log import EvalLog
from spade_evals.suite import Suite, UnscorableError
from spade_evals.suites import SuiteOptions, open_suite
from spade_evals.summary import LogSummary, write_summary
from spade_evals.types import Sample, SampleOutcome, Task

__all__ = ["Rescored", "rescore_log"]

_AT_ONCE = 64


class Rescored(NamedTuple):
    """What came of it; `seconds` without reading the log and loading the suite."""

    summary: LogSummary
    graded: int
    changed: int
    seconds: float


async def rescore_log(log: EvalLog, *, data: Path | None = None) -> Rescored:
    """Grade every sample that has a response.

    Raises:
        UsageError: the log holds tasks that the suite does not have.
        InfrastructureError: the suite's data is missing, or is not what the log was made with.
    """
    header = log.header()
    user = None if header.user_model is None else header.user_model.target
    options = SuiteOptions(data=data, protocol=header.protocol, seed=header.seed, user_model=user)
    async with aclosing(open_suite(header.suite, options)) as suite:
        lacking = [lack for lack in suite.preflight() if lack.column in header.asked]
        if lacking:
            raise InfrastructureError(f"{log.path} cannot be graded again: {lacking[0].column}: {lacking[0].what}")
        loaded = suite.load(list(header.asked))
        changed = {name for name, digest in loaded.checksums.items() if header.data.get(name, digest) != digest}
        if changed:
            raise InfrastructureError(f"{sorted(changed)[0]} is not the file that {log.path} was made with")
        tasks = {task.id: task for task in loaded.tasks}
        samples = list(log.samples().latest.values())
        started = time.perf_counter()
        graded = [sample for sample in samples if _has_response(sample)]
        renewed = await _graded(suite, tasks, graded, log)
        seconds = max(time.perf_counter() - started, 1e-9)
        differing = [new for old, new in zip(graded, renewed, strict=True) if _judged(old) != _judged(new)]
        with log.writing() as writer:
            writer.extend([replace(sample, attempt=sample.attempt + 1) for sample in differing])
            log.write_header(replace(header, grading=suite.grading))
        return Rescored(write_summary(log), len(graded), len(differing), seconds)


async def _graded(suite: Suite, tasks: dict[str, Task], samples: list[Sample], log: EvalLog) -> list[Sample]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(sample: Sample) -> Sample:
        task = tasks.get(sample.id)
        if task is None:
            raise UsageError(f"{log.path} holds {sample.id!r}, which its suite does not have")
        async with gate:
            try:
                score = await suite.grade(task, sample)
            except UnscorableError as error:
                return replace(sample, outcome=SampleOutcome.UNSCORABLE, score=None, reason=str(error))
        reason = "length" if sample.finish == "length" and score.value < 1.0 else score.reason
        return replace(sample, outcome=SampleOutcome.SCORED, score=score.value, reason=reason)

    return list(await asyncio.gather(*(one(sample) for sample in samples)))


def _has_response(sample: Sample) -> bool:
    return sample.outcome is not SampleOutcome.INFRASTRUCTURE_ERROR and sample.reason != "context"


def _judged(sample: Sample) -> tuple[object, ...]:
    return sample.outcome, sample.score, sample.reason
