"""The nouns of an evaluation: tasks, samples, scores, and what a log says about how they came to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from spade_agents.messages import Message
from spade_agents.policy.protocol import Sampling
from spade_environments import ToolSpec

__all__ = [
    "LOG_FORMAT",
    "ColumnSettings",
    "LogHeader",
    "ModelFacts",
    "Sample",
    "SampleKey",
    "SampleOutcome",
    "Score",
    "Task",
]

LOG_FORMAT = 1

SampleKey = tuple[str, int]
"""What pairs samples of two logs: task id and epoch."""


class SampleOutcome(StrEnum):
    """How a sample ended; only the first has a score, and the others are never a 0."""

    SCORED = "scored"
    INFRASTRUCTURE_ERROR = "infrastructure_error"
    UNSCORABLE = "unscorable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question, the same for every model.

    Attributes:
        id: unique in its suite.
        column: of the suite's table.
        messages: the opening, for tasks that are one completion.
        tools: offered, for tasks that are one completion.
        target: what a right answer is compared with, as text for a reader.
        data: what the suite needs for playing and grading.
        tags: by which its column is also broken down, such as skill.
    """

    id: str
    column: str
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    target: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A grade in [0, 1], and why where it is not plain."""

    value: float
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One attempt at one task; a line of `samples.jsonl`.

    Attributes:
        id: of the task; `epoch` counts its repetitions from 0, `attempt` the tries of one repetition from 0.
        outcome: see `SampleOutcome`.
        reason: why it has no score, or what a score of 0 came from (`context`, `length`, `wrong`, ...).
        score: in [0, 1] where the outcome is `scored`, else `None`.
        messages: the conversation, for a reader.
        response: what is graded.
        target: what it is graded against.
        finish: how the last completion ended.
        tokens_in, tokens_out: over all completions of the model that is evaluated.
        user_tokens_in, user_tokens_out: over all those of the simulated user, where there is one.
        seconds: wall time from its start.
        tags: of the task.
    """

    id: str
    epoch: int
    attempt: int
    column: str
    outcome: SampleOutcome
    reason: str = ""
    score: float | None = None
    messages: tuple[Message, ...] = ()
    response: str = ""
    target: str = ""
    finish: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    user_tokens_in: int = 0
    user_tokens_out: int = 0
    seconds: float = 0.0
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> SampleKey:
        """What pairs it with a sample of another log."""
        return self.id, self.epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSettings:
    """How one column is asked: repetitions of each task, and the sampling of every completion."""

    n: int = 1
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The model as it was named, and what it said of itself: also what ran it, with its version."""

    target: str
    name: str = ""
    context_length: int = 0
    backend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHeader:
    """`eval.json`: everything that two logs must share before their scores may be compared, and where they came from.

    Attributes:
        suite: as it was named, such as `environments:catalogue`.
        grading: version of the grading; scores of two versions are not comparable.
        protocol: named variant, such as `paper`.
        columns: settings of each column.
        asked: tasks of each column; samples asked are tasks times n.
        seed: of instances and sampling; `draw` tells repetitions of a run apart.
        data: sha256 of each file or generated set of tasks, by name.
        not_run: columns that were asked for and could not run, with the reason.
        trained_on: columns whose tasks were among what the model was trained on, with how many; no mean is shown.
        weights: of the columns in the overall mean; empty for an unweighted mean.
        versions: of the packages that decide a score.
    """

    format: int = LOG_FORMAT
    suite: str
    grading: str
    protocol: str = "default"
    model: ModelFacts
    user_model: ModelFacts | None = None
    columns: Mapping[str, ColumnSettings]
    asked: Mapping[str, int]
    seed: int = 0
    draw: int = 0
    limit: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    trained_on: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    created: str = ""

    @property
    def samples_asked(self) -> int:
        """Samples over all columns."""
        return sum(count * self.columns[name].n for name, count in self.asked.items())
