"""The headline of a report: what changed from the first evaluation to the last, in numbers that stand on their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spade_agents.report.charts import sparkline
from spade_agents.report.types import Estimate, ReportData
from spade_environments.wording import counted

__all__ = ["Card", "cards"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One figure: before, after, what it means, and a line of how it went; `leads` marks those shown large."""

    title: str
    value: str
    change: str = ""
    rises: bool | None = None
    told: str = ""
    spark: str = ""
    leads: bool = False


def cards(data: ReportData) -> tuple[Card, ...]:
    """Held-out solve rate of each part, then certified share, regret and diversity where the run has them."""
    parts = list(dict.fromkeys(name for evaluation in data.evaluations for name in evaluation.parts))
    held_out = [_held_out(data, part, colour + 1) for colour, part in enumerate(parts)]
    shares = [
        _share("Certified share", [row.certified for row in data.rollouts], "of design attempts"),
        _share("Regret, raw", [row.regret_raw for row in data.rollouts], "with the hint minus without it", signed=True),
        _share("Distinct designs", _estimates([row.distinct for row in data.rollouts]), "by normalised program"),
    ]
    return tuple(card for card in (*held_out, *shares) if card is not None)


def _held_out(data: ReportData, part: str, colour: int) -> Card:
    found = [evaluation.parts[part] for evaluation in data.evaluations if part in evaluation.parts]
    first, last = found[0], found[-1]
    title = f"Held-out solve rate, {part}"
    spark = sparkline([estimate.value for estimate in found], label=title, colour=colour)
    plays = counted(last.count, "play") + (f", {last.missing} missing" if last.missing else "")
    if len(found) == 1:
        return Card(title=title, value=f"{last.value:.2f}", told=f"{_interval(last)} · {plays}", leads=True)
    change = last.value - first.value
    return Card(
        title=title,
        value=f"{first.value:.2f} → {last.value:.2f}",
        change=_change(change, data, part),
        rises=None if abs(change) < 0.005 else change > 0,
        told=f"{_interval(first)} → {_interval(last)} · {plays}",
        spark=spark,
        leads=True,
    )


def _change(change: float, data: ReportData, part: str) -> str:
    paired = next((found.difference for found in data.changes if found.name == part), None)
    if paired is None or paired.low is None or paired.high is None:
        return f"{change:+.2f} (no interval: fewer than two environments)"
    return f"{change:+.2f} ({paired.low:+.2f} to {paired.high:+.2f})"


def _share(title: str, values: Sequence[Estimate | None], told: str, *, signed: bool = False) -> Card | None:
    found = [value for value in values if value is not None]
    if not found:
        return None
    shown = "{:+.2f}" if signed else "{:.2f}"
    first, last = shown.format(found[0].value), shown.format(found[-1].value)
    spark = sparkline([value.value for value in found], label=title, colour=8)
    if len(found) == 1:
        return Card(title=title, value=last, told=told)
    return Card(title=title, value=f"{first} → {last}", told=f"{told}, first rollout to last", spark=spark)


def _estimates(values: Sequence[float | None]) -> list[Estimate | None]:
    return [None if value is None else Estimate(value=value) for value in values]


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "no interval"
    return f"95 % {estimate.low:.2f}–{estimate.high:.2f}"
