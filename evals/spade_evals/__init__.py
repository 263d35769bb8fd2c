"""Evaluation: suites of tasks, logs that can be resumed, graded again and compared, and held-out plays in training."""

from __future__ import annotations

from spade_evals.compare import Comparison, GateSettings, Verdict, compare_logs, load_log
from spade_evals.log import EvalLog, find_logs
from spade_evals.summary import LogSummary, summarise
from spade_evals.types import LogHeader, Sample, SampleOutcome, Score, Task

__all__ = [
    "Comparison",
    "EvalLog",
    "GateSettings",
    "LogHeader",
    "LogSummary",
    "Sample",
    "SampleOutcome",
    "Score",
    "Task",
    "Verdict",
    "compare_logs",
    "find_logs",
    "load_log",
    "summarise",
]
