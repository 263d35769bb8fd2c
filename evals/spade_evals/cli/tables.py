"""A log as lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from spade_agents.terminal import visible_line
from spade_evals.log import EvalLog
from spade_evals.summary import ColumnSummary, LogSummary, by_reason, some
from spade_evals.types import LogHeader

__all__ = ["log_lines", "summaries_json"]

_GROUPS_SHOWN = 12
_FOR_REPORTS = frozenset({"environment"})
"""Tags with too many values for a terminal."""


def log_lines(log: EvalLog, summary: LogSummary) -> list[str]:
    """The table of a log: every mean with its interval, and all counts beside it."""
    header = log.header()
    lines = [f"{visible_line(header.suite)} ({header.protocol}), {visible_line(header.model.target)}: {log.path}"]
    lines += (
        []
        if not summary.columns
        else _table(
            ["column", "mean", "95 % interval", "scored", "infra", "unscorable", "missing", "asked"],
            [_row(name, column) for name, column in summary.columns.items()],
        )
    )
    for why, names in by_reason(summary.not_run).items():
        told = some(names) if summary.columns or len(names) < len(summary.not_run) else "all of it"
        lines.append(f"  {told}: not run: {visible_line(why)}")
    lines += [
        f"  {name}: mean withheld: {column.withheld}" for name, column in summary.columns.items() if column.withheld
    ]
    for name, column in summary.columns.items():
        lines += _pass_lines(name, column)
        lines += [f"  {name}, not full marks: {_counts(column.reasons)}"] if column.reasons else []
    lines += _group_lines(summary)
    lines.append(_overall(summary))
    lines.append(f"  {_settings(header)}; {_spent(header, summary)}")
    if not summary.is_complete:
        lines.append("  not complete: run again with --resume, which redoes only what is missing")
    return lines


def summaries_json(finished: Iterable[tuple[EvalLog, LogSummary]]) -> str:
    """For a program."""
    rows = [{"log": str(log.path), "summary": msgspec.to_builtins(summary)} for log, summary in finished]
    return json.dumps(rows, indent=2)


def _spent(header: LogHeader, summary: LogSummary) -> str:
    """What was read and written, by whom, and what ran it."""
    told = f"{summary.tokens_in} tokens in, {summary.tokens_out} out"
    if header.model.backend:
        told += f" by {visible_line(header.model.backend)}"
    if header.user_model is None or not (summary.user_tokens_in or summary.user_tokens_out):
        return told
    user = f"{summary.user_tokens_in} in, {summary.user_tokens_out} out"
    return f"{told}; user {visible_line(header.user_model.target)}: {user}"


def _row(name: str, column: ColumnSummary) -> list[str]:
    mean = "withheld" if column.withheld else ("–" if column.mean is None else f"{column.mean:.4f}")
    interval = "" if column.low is None or column.high is None else f"[{column.low:.4f}, {column.high:.4f}]"
    counts = (column.scored, column.infrastructure, column.unscorable, column.missing, column.asked)
    return [name, mean, interval, *(str(count) for count in counts)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    return [
        "  "
        + "  ".join(
            f"{cell:<{width}}" if place == 0 else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]


def _pass_lines(name: str, column: ColumnSummary) -> list[str]:
    if not column.pass_at:
        return []
    at = ", ".join(f"pass@{k} {value:.3f}" for k, value in column.pass_at.items())
    hat = ", ".join(f"pass^{k} {value:.3f}" for k, value in column.pass_hat.items())
    return [f"  {name}: {at}, {hat}"]


def _counts(reasons: object) -> str:
    counts = dict(reasons) if isinstance(reasons, dict) else {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{count} {visible_line(reason)[:60]}" for reason, count in ordered[:6]]
    return ", ".join([*told, f"{len(ordered) - 6} more reasons"] if len(ordered) > 6 else told)


def _group_lines(summary: LogSummary) -> list[str]:
    lines = []
    for tag, groups in summary.groups.items():
        if 1 < len(groups) <= _GROUPS_SHOWN and tag not in _FOR_REPORTS:
            lines.append(f"  by {tag}")
            for value, group in groups.items():
                mean = "–" if group.mean is None else f"{group.mean:.4f}"
                interval = "" if group.low is None else f" [{group.low:.4f}, {group.high:.4f}]"
                lines.append(f"    {visible_line(value)}: {mean}{interval}, {group.scored} of {group.samples} scored")
    return lines


def _overall(summary: LogSummary) -> str:
    if summary.overall is None:
        told = f"  overall withheld: {visible_line(summary.withheld)}"
        if summary.partial is None:
            return told
        coverage = f"at a coverage of {summary.coverage:.1%}: what did not run counts as 0"
        return f"{told}\n  partial {summary.partial:.4f} {coverage}"
    error = "" if summary.overall_error is None else f", standard error {summary.overall_error:.4f}"
    return f"  overall {summary.overall:.4f}{error}"


def _settings(header: LogHeader) -> str:
    kinds = {
        f"n {column.n}, T {column.sampling.temperature:g}, top-p {column.sampling.top_p:g}, "
        f"top-k {column.sampling.top_k}, max tokens {column.sampling.max_tokens}"
        for column in header.columns.values()
    }
    user = "" if header.user_model is None else f"; user {visible_line(header.user_model.target)}"
    return " | ".join(sorted(kinds) or ["nothing was asked"]) + f"{user}; grading {header.grading}, seed {header.seed}"
