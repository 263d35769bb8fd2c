"""The summary of a log: means with intervals beside all counts, and an overall mean only where everything ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from statistics import fmean

import msgspec

from spade_agents.files import write_whole
from spade_agents.statistics import clustered_mean
from spade_evals.log import EvalLog, Samples
from spade_evals.types import LogHeader, Sample, SampleOutcome

__all__ = [
    "ColumnSummary",
    "GroupSummary",
    "LogSummary",
    "by_reason",
    "pass_at",
    "pass_hat",
    "some",
    "summarise",
    "write_summary",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """One column.

    Attributes:
        tasks: asked; `n` repetitions of each; `asked` samples in all.
        scored, infrastructure, unscorable: samples by outcome; `missing` were never taken.
        mean: of the scored ones (avg@n), `None` where withheld or where there is none; `withheld` says why.
        standard_error, low, high: clustered by task, 95 %.
        pass_at, pass_hat: pass@k and pass^k by k, over tasks whose n samples are all scored.
        reasons: of the samples that did not score 1.
    """

    tasks: int
    n: int
    asked: int
    scored: int
    infrastructure: int
    unscorable: int
    missing: int
    mean: float | None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    withheld: str = ""
    pass_at: Mapping[str, float] = field(default_factory=dict)
    pass_hat: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every sample asked for was taken and none met an infrastructure error."""
        return self.missing == 0 and self.infrastructure == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """The samples that share a tag, such as one skill."""

    samples: int
    scored: int
    mean: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """A log as figures.

    Attributes:
        columns: by name.
        overall: the weighted mean; `None` where `withheld` says why.
        partial: where columns could not run and all else is there: the mean with those counted as 0, as official tables
            have it, and `coverage`, the share of the weights that ran.
        not_run: columns that could not run, with the reason.
        groups: by tag and value.
        user_tokens_in, user_tokens_out: of the simulated user; `tokens_in` and `tokens_out` are the model's.
    """

    columns: Mapping[str, ColumnSummary]
    overall: float | None
    overall_error: float | None = None
    withheld: str = ""
    partial: float | None = None
    coverage: float = 1.0
    not_run: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, GroupSummary]] = field(default_factory=dict)
    doubled: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    user_tokens_in: int = 0
    user_tokens_out: int = 0
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing, doubled, failed or left out."""
        return not self.not_run and not self.doubled and all(column.is_complete for column in self.columns.values())


def summarise(header: LogHeader, samples: Samples) -> LogSummary:
    """Figures of a log. A column that is not complete shows its mean with its counts, but enters no overall mean."""
    by_column: dict[str, list[Sample]] = {name: [] for name in header.asked}
    for sample in samples.latest.values():
        by_column.setdefault(sample.column, []).append(sample)
    columns = {name: _column(header, name, found) for name, found in by_column.items()}
    everything = list(samples.latest.values())
    withheld = _withheld(header, columns, len(samples.doubled))
    whole = _weighted(header, columns)
    # Whether what could not run is all that stands in the way.
    weights = {name: weight for name, weight in header.weights.items() if name not in header.not_run}
    ran = replace(header, not_run={}, weights=weights)
    is_partial = bool(header.not_run) and not _withheld(ran, columns, len(samples.doubled))
    coverage = _coverage(header, columns) if is_partial else 1.0
    return LogSummary(
        columns=columns,
        overall=None if withheld else whole,
        overall_error=None if withheld else _weighted_error(header, columns),
        withheld=withheld,
        partial=whole * coverage if is_partial and whole is not None else None,
        coverage=coverage,
        not_run=header.not_run,
        groups={} if header.trained_on else _groups(everything),
        doubled=len(samples.doubled),
        tokens_in=sum(sample.tokens_in for sample in everything),
        tokens_out=sum(sample.tokens_out for sample in everything),
        user_tokens_in=sum(sample.user_tokens_in for sample in everything),
        user_tokens_out=sum(sample.user_tokens_out for sample in everything),
        seconds=sum(sample.seconds for sample in everything),
    )


def write_summary(log: EvalLog) -> LogSummary:
    """Derive `summary.json` from the other two files."""
    summary = summarise(log.header(), log.samples())
    write_whole(log.summary_path, msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    return summary


def pass_at(n: int, successes: int, k: int) -> float:
    """Chance that one of k samples drawn from these n is a success; 3, 1, 2 gives 2/3."""
    return 1.0 - comb(n - successes, k) / comb(n, k)


def pass_hat(n: int, successes: int, k: int) -> float:
    """Chance that all of k samples drawn from these n are successes (pass^k); 3, 2, 2 gives 1/3."""
    return comb(successes, k) / comb(n, k)


def by_reason(not_run: Mapping[str, str]) -> dict[str, list[str]]:
    """Columns by why they did not run, so that a reason which many share is told once."""
    found: dict[str, list[str]] = {}
    for name, why in not_run.items():
        found.setdefault(why, []).append(name)
    return found


def some(names: Sequence[str], shown: int = 4) -> str:
    """The first few of many names.

    >>> some(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d and 2 more'
    """
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _column(header: LogHeader, name: str, samples: Sequence[Sample]) -> ColumnSummary:
    n, tasks = header.columns[name].n, header.asked.get(name, 0)
    outcomes = Counter(sample.outcome for sample in samples)
    values: dict[str, list[float | None]] = {}
    for sample in samples:
        values.setdefault(sample.id, []).append(sample.score)
    scores = [score for cluster in values.values() for score in cluster if score is not None]
    trained = header.trained_on.get(name, 0)
    interval = None if trained else clustered_mean(values)
    return ColumnSummary(
        tasks=tasks,
        n=n,
        asked=tasks * n,
        scored=outcomes[SampleOutcome.SCORED],
        infrastructure=outcomes[SampleOutcome.INFRASTRUCTURE_ERROR],
        unscorable=outcomes[SampleOutcome.UNSCORABLE],
        missing=tasks * n - len(samples),
        mean=fmean(scores) if scores and not trained else None,
        standard_error=interval.standard_error if interval else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        withheld=f"the model was trained on {trained} of these tasks" if trained else "",
        pass_at={} if trained else _by_k(values, n, pass_at),
        pass_hat={} if trained else _by_k(values, n, pass_hat),
        reasons=Counter(sample.reason or "wrong" for sample in samples if sample.score is None or sample.score < 1.0),
    )


def _by_k(
    values: Mapping[str, Sequence[float | None]], n: int, chance: Callable[[int, int, int], float]
) -> dict[str, float]:
    """The mean over tasks with n scored samples, for k = 2, 4, 8 … and n."""
    whole = [
        sum(score >= 1.0 for score in scores if score is not None)
        for scores in values.values()
        if len(scores) == n and None not in scores
    ]
    if n < 2 or not whole:
        return {}
    ks = sorted({n, *(2**power for power in range(1, n.bit_length()) if 2**power <= n)})
    return {str(k): fmean(chance(n, successes, k) for successes in whole) for k in ks}


def _groups(samples: Sequence[Sample]) -> dict[str, dict[str, GroupSummary]]:
    """Samples by tag and value, both in order."""
    found: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        for tag, value in sample.tags.items():
            found.setdefault(tag, {}).setdefault(value, []).append(sample)
    return {tag: {value: _group(values[value]) for value in sorted(values)} for tag, values in sorted(found.items())}


def _group(samples: Sequence[Sample]) -> GroupSummary:
    values: dict[str, list[float | None]] = {}
    for sample in samples:
        values.setdefault(sample.id, []).append(sample.score)
    scores = [sample.score for sample in samples if sample.score is not None]
    interval = clustered_mean(values)
    return GroupSummary(
        samples=len(samples),
        scored=len(scores),
        mean=fmean(scores) if scores else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )


def _withheld(header: LogHeader, columns: Mapping[str, ColumnSummary], doubled: int) -> str:
    """Why no overall mean may be shown; empty where it may."""
    left = list(header.not_run)
    told = some(left) if columns else "all of it"
    found = [f"{told} {'was' if len(left) == 1 or not columns else 'were'} not run"] if left else []
    for name, column in columns.items():
        found += [f"{name}: {column.withheld}"] if column.withheld else []
        if not column.is_complete:
            found.append(
                f"{name}: of {column.asked} samples {column.missing} not taken, "
                f"{column.infrastructure} infrastructure errors"
            )
        found += [] if column.scored else [f"{name} has no scored sample"]
    absent = sorted(set(header.weights) - set(columns) - set(header.not_run))
    found += [f"partial: {', '.join(absent)} not asked for"] if absent else []
    found += [f"{doubled} doubled ids"] if doubled else []
    return "; ".join(found)


def _weighted(header: LogHeader, columns: Mapping[str, ColumnSummary]) -> float | None:
    weights = {name: header.weights.get(name, 0.0) if header.weights else 1.0 for name in columns}
    total = sum(weights.values())
    means = {name: column.mean for name, column in columns.items() if column.mean is not None}
    return sum(weights[name] * mean for name, mean in means.items()) / total if total and means else None


def _coverage(header: LogHeader, columns: Mapping[str, ColumnSummary]) -> float:
    weights = {name: header.weights.get(name, 0.0) if header.weights else 1.0 for name in (*columns, *header.not_run)}
    total = sum(weights.values())
    return sum(weights[name] for name in columns) / total if total else 0.0


def _weighted_error(header: LogHeader, columns: Mapping[str, ColumnSummary]) -> float | None:
    weights = {name: header.weights.get(name, 0.0) if header.weights else 1.0 for name in columns}
    errors = [(weights[name], column.standard_error) for name, column in columns.items()]
    total = sum(weights.values())
    known = [(weight, error) for weight, error in errors if error is not None]
    if len(known) < len(errors) or not total:
        return None
    return float(sum((weight * error) ** 2 for weight, error in known) ** 0.5 / total)
