"""Logs and comparisons as the values of the HTML page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from spade_agents.report.evaluation import (
    ComparedLogs,
    EvaluatedColumn,
    EvaluatedLog,
    EvaluationPage,
    FlippedSample,
    ReadableSample,
    render_evaluation,
)
from spade_agents.report.types import Line
from spade_evals.compare import Comparison, GateSettings, compare_logs, load_log
from spade_evals.log import EvalLog
from spade_evals.summary import ColumnSummary, GroupSummary, LogSummary, by_reason, some, summarise
from spade_evals.types import Sample, SampleKey

__all__ = ["evaluation_html"]

_READ = 40
_FLIPS = 60
_SPEAKERS = {"system": "system", "user": "user", "assistant": "agent", "tool": "tool"}


def evaluation_html(
    base: Sequence[EvalLog], candidate: Sequence[EvalLog] = (), gate: GateSettings | None = None
) -> str:
    """The page of some logs; with a candidate, each of its logs stands beside that of the same suite."""
    by_suite = {log.header().suite: log for log in base}
    pairs = [(by_suite[log.header().suite], log) for log in candidate if log.header().suite in by_suite]
    logs = [*base, *candidate]
    models = ", ".join(dict.fromkeys(log.header().model.target for log in logs))
    return render_evaluation(
        EvaluationPage(
            title=models or "evaluation",
            logs=[_log(log) for log in logs],
            comparisons=[_compared(a, b, gate or GateSettings()) for a, b in pairs],
        )
    )


def _log(log: EvalLog) -> EvaluatedLog:
    header, samples = log.header(), log.samples()
    summary = summarise(header, samples)
    facts = {
        "model": header.model.name or header.model.target,
        "protocol": header.protocol,
        "grading": header.grading,
        "seed": str(header.seed),
        "tokens in": str(summary.tokens_in),
        "tokens out": str(summary.tokens_out),
        "made": header.created,
    }
    if header.model.backend:
        facts["run by"] = header.model.backend
    if header.user_model is not None:
        facts["user model"] = header.user_model.target
        facts["user's tokens in, out"] = f"{summary.user_tokens_in}, {summary.user_tokens_out}"
    error = "" if summary.overall_error is None else f" ± {summary.overall_error:.4f}"
    return EvaluatedLog(
        title=f"{header.suite} · {header.model.target}",
        overall="" if summary.overall is None else f"{summary.overall:.4f}{error}",
        withheld=summary.withheld,
        facts=tuple(facts.items()),
        columns=tuple(_rows(summary)),
        samples=tuple(_readable(one) for one in _to_read(samples.latest)),
    )


def _rows(summary: LogSummary) -> Iterator[EvaluatedColumn]:
    for name, column in summary.columns.items():
        yield _row(name, column)
    for why, names in by_reason(summary.not_run).items():
        yield EvaluatedColumn(
            name=some(names), mean="not run", interval="", scored=0, infrastructure=0, unscorable=0, missing=0, asked=0,
            reasons=why,
        )  # fmt: skip
    for tag, groups in summary.groups.items():
        for value, group in groups.items() if len(groups) > 1 else ():
            yield _group_row(f"{tag}: {value}", group)


def _row(name: str, column: ColumnSummary) -> EvaluatedColumn:
    return EvaluatedColumn(
        name=name,
        mean="withheld" if column.withheld else _number(column.mean),
        interval=_interval(column.low, column.high),
        scored=column.scored,
        infrastructure=column.infrastructure,
        unscorable=column.unscorable,
        missing=column.missing,
        asked=column.asked,
        reasons=column.withheld or _counted(column.reasons),
    )


def _group_row(name: str, group: GroupSummary) -> EvaluatedColumn:
    return EvaluatedColumn(
        name=name, mean=_number(group.mean), interval=_interval(group.low, group.high), scored=group.scored,
        infrastructure=0, unscorable=0, missing=0, asked=group.samples, indented=True,
    )  # fmt: skip


def _counted(reasons: Mapping[str, int]) -> str:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {reason[:80]}" for reason, count in ordered[:5])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:.4f}, {high:.4f}]"


def _to_read(samples: Mapping[SampleKey, Sample]) -> list[Sample]:
    """Some of each kind: without a score first, then wrong, then right."""
    kinds: dict[object, list[Sample]] = {}
    for sample in samples.values():
        kinds.setdefault((sample.outcome, sample.score == 1.0), []).append(sample)
    ordered = sorted(kinds.values(), key=lambda found: (found[0].score is not None, found[0].score or 0.0))
    return [sample for found in ordered for sample in found[: _READ // max(len(ordered), 1)]]


def _readable(sample: Sample) -> ReadableSample:
    return ReadableSample(
        id=sample.id,
        epoch=sample.epoch,
        column=sample.column,
        outcome=sample.outcome.value.replace("_", " "),
        score=sample.score,
        reason=sample.reason,
        target=sample.target,
        lines=tuple(_lines(sample)),
    )


def _lines(sample: Sample) -> Iterator[Line]:
    for message in sample.messages:
        if message.content or not message.calls:
            yield Line(speaker=_SPEAKERS[message.role], text=message.content)
        for call in message.calls:
            yield Line(speaker="call", text=f"{call.name}({json.dumps(dict(call.arguments), ensure_ascii=False)})")
    if not sample.messages:
        yield Line(speaker="agent", text=sample.response)


def _compared(base: EvalLog, candidate: EvalLog, gate: GateSettings) -> ComparedLogs:
    comparison = compare_logs(load_log(base), load_log(candidate), gate=gate)
    before, after = base.samples().latest, candidate.samples().latest
    flips = [
        FlippedSample(before=_readable(before[key]), after=_readable(after[key]))
        for key in ((flip.id, flip.epoch) for flip in comparison.flips[:_FLIPS])
    ]
    return ComparedLogs(
        title=f"{comparison.suite}: {base.path.name} against {candidate.path.name}",
        verdict=comparison.verdict(gate).reason,
        facts=tuple(_comparison_facts(comparison).items()),
        flips=tuple(flips),
    )


def _comparison_facts(comparison: Comparison) -> dict[str, str]:
    difference = comparison.difference
    told = "–" if difference is None else f"{difference.estimate:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
    return {
        "base": _number(comparison.before),
        "candidate": _number(comparison.after),
        "difference": told,
        "pairs": str(comparison.paired.pairs),
        "lost": str(comparison.paired.lost),
        "gained": str(comparison.paired.gained),
        f"p ({comparison.paired.test})": f"{comparison.paired.p_value:.4f}",
        "smallest visible drop": "none" if comparison.smallest is None else f"{comparison.smallest:.3f}",
    }
