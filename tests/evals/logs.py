"""Logs made in memory and on disk for the tests of this room."""

from __future__ import annotations

from dataclasses import replace

from spade_evals.log import EvalLog
from spade_evals.types import ColumnSettings, LogHeader, ModelFacts, Sample, SampleOutcome

HEADER = LogHeader(
    suite="made:up",
    grading="1",
    model=ModelFacts(target="scripted:made", name="made", context_length=100),
    columns={"right": ColumnSettings(n=1)},
    asked={"right": 2},
    data={"questions": "abc"},
)


def sample(name, score=1.0, *, epoch=0, attempt=0, column="right", outcome=SampleOutcome.SCORED, **more):
    value = score if outcome is SampleOutcome.SCORED else None
    return Sample(id=name, epoch=epoch, attempt=attempt, column=column, outcome=outcome, score=value, **more)


def failed(name, **more):
    return sample(name, outcome=SampleOutcome.INFRASTRUCTURE_ERROR, reason="the server answered 500", **more)


def write_log(path, samples, **changes):
    samples = list(samples)
    asked = {"right": len({one.id for one in samples})}
    log = EvalLog.create(path, replace(HEADER, **{"asked": asked, **changes}))
    with log.writing() as writer:
        writer.extend(samples)
    return log


def scored_log(path, scores, **changes):
    return write_log(path, [sample(f"task-{number}", score) for number, score in enumerate(scores)], **changes)
