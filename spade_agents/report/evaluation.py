"""The page of an evaluation: tables of logs, samples to read, and two logs side by side, as one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spade_agents.report.page import page_templates
from spade_agents.report.types import Line
from spade_agents.terminal import visible

__all__ = [
    "ComparedLogs",
    "EvaluatedColumn",
    "EvaluatedLog",
    "EvaluationPage",
    "FlippedSample",
    "ReadableSample",
    "render_evaluation",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedColumn:
    """One row of a log's table: a column, or one group of it; `mean` and `interval` are as they are shown."""

    name: str
    mean: str
    interval: str
    scored: int
    infrastructure: int
    unscorable: int
    missing: int
    asked: int
    reasons: str = ""
    indented: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableSample:
    """One sample with its transcript."""

    id: str
    epoch: int
    column: str
    outcome: str
    score: float | None
    reason: str
    target: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedLog:
    """One log: its table, what it was made with, and samples to read."""

    title: str
    overall: str
    withheld: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[EvaluatedColumn, ...]
    samples: tuple[ReadableSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedSample:
    """A sample that two logs score differently, both transcripts side by side."""

    before: ReadableSample
    after: ReadableSample


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLogs:
    """What a comparison of two logs says."""

    title: str
    verdict: str
    facts: tuple[tuple[str, str], ...]
    flips: tuple[FlippedSample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPage:
    """Everything on the page."""

    title: str
    logs: Sequence[EvaluatedLog]
    comparisons: Sequence[ComparedLogs] = ()


def render_evaluation(page: EvaluationPage) -> str:
    """HTML of an evaluation; what models and data wrote is escaped, and loads and runs nothing."""
    return visible(page_templates().get_template("evaluation.html").render({"page": page}))
