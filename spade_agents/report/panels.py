"""The panels of a report: which figures a chart shows, and what it says where a run has none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spade_agents.report.charts import Bars, Dot, Point, Series, line_chart, scatter, stacked_bars
from spade_agents.report.types import EnvironmentEntry, Estimate, Evaluation, ReportData, RolloutRow

__all__ = ["LegendItem", "Panel", "environment_scatter", "panels"]

UNIT = (0.0, 1.0)
REGIMES = {"mastered": 3, "frontier": 1, "neutral": 6, "misled": 2, "intractable": 5, "": 8}
OUTCOMES = {"scored": 3, "agent error": 2, "environment fault": 5, "infrastructure fault": 8}
Pick = Callable[[RolloutRow], Estimate | float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendItem:
    """A name and the number of its colour."""

    name: str
    colour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart with its words; `svg` is empty where the run has no such figures, and `missing` says so."""

    title: str
    told: str
    svg: str = ""
    legend: tuple[LegendItem, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """A panel of lines over the rollouts: its words, and which figure of a row each line shows."""

    title: str
    told: str
    picks: Mapping[str, Pick]
    y_range: tuple[float, float] | None = None
    zero_line: bool = False


_CERTIFIED = _Lines(
    title="Certified share",
    told="Design attempts that passed every gate and are no copy of another, of those that could be decided.",
    picks={"certified": lambda row: row.certified},
    y_range=UNIT,
)
_OF_THE_PLAYS = (
    _Lines(
        title="Win rate of the two arms",
        told="Mean return on the environments of the set in play; with the hint only where the set is new.",
        picks={"without hint": lambda row: row.win_rate, "with hint": lambda row: row.hinted_win_rate},
        y_range=UNIT,
    ),
    _Lines(
        title="Regret",
        told="Mean return with the hint minus without it, on the same seeds. Raw can be negative: a hint can mislead.",
        picks={"raw": lambda row: row.regret_raw, "floored at 0": lambda row: row.regret_floored},
        zero_line=True,
    ),
    _Lines(
        title="Learnable share",
        told="Environments that the agent wins neither nearly always nor nearly never (win rate 0.2 to 0.8).",
        picks={"learnable": lambda row: row.learnable},
        y_range=UNIT,
    ),
    _Lines(
        title="Diversity of designs",
        told="Different normalised programs / programs of a set's attempts, and the newest designs' Vendi score / n.",
        picks={"distinct": lambda row: row.distinct, "Vendi / n": lambda row: row.vendi},
        y_range=UNIT,
    ),
)
_SURPRISE = _Lines(
    title="Surprise",
    told="Mean −log probability of the sampled tokens, an estimate of the policy's entropy.",
    picks={"surprise": lambda row: row.surprise},
)


def panels(data: ReportData) -> tuple[Panel, ...]:
    """Every panel over time, in reading order."""
    rows = data.rollouts
    gates, regimes = [row.rejected_by for row in rows], [row.regimes for row in rows]
    outcomes = [row.outcomes for row in rows]
    named = {name: colour for name, colour in REGIMES.items() if name}
    return (
        _held_out(data.evaluations),
        _lines(_CERTIFIED, rows),
        *(_lines(panel, rows) for panel in _OF_THE_PLAYS),
        _counts(_GATES, rows, gates, _in_order_of_size(gates)),
        _counts(_REGIMES, rows, regimes, named),
        _counts(_PLAYS, rows, outcomes, OUTCOMES),
        _lines(_losses(rows), rows),
        _lines(_SURPRISE, rows),
    )


_GATES = ("Gates that reject", "Rejected attempts, by the gate that turned them down.")
_REGIMES = ("Regimes", "Environments of each set, by what the two arms' means say of them.")
_PLAYS = ("How plays ended", "Plays of both arms; those with a fault are missing values, and in no mean.")


def _losses(rows: Sequence[RolloutRow]) -> _Lines:
    return _Lines(
        title="Loss",
        told="Terms of the training loss at each update; the policy term is near 0 by construction.",
        picks={name: _loss(name) for name in sorted({name for row in rows for name in row.losses})},
        zero_line=True,
    )


def environment_scatter(
    entries: Sequence[EnvironmentEntry], linked: Iterable[str], band: tuple[float, float] | None = None
) -> Panel:
    """Every environment by win rate and regret; those in `linked` lead to their own part of the page.

    Args:
        entries: of the pool.
        linked: ids.
        band: win rates that earn the designer most, where the reward has such a band.
    """
    worth = "" if band is None else f"; the shaded win rates, {band[0]:g} to {band[1]:g}, earn the designer most"
    title, told = "Environments by win rate and regret", f"Point at one for its name{worth}."
    shown = [entry for entry in entries if entry.win_rate is not None and entry.regret is not None]
    if not shown:
        return Panel(title=title, told=told, missing="No environment has a win rate and a regret yet.")
    pages = set(linked)
    dots = [
        Dot(
            x=entry.win_rate or 0.0,
            y=entry.regret or 0.0,
            title=f"{entry.name}: {entry.skill}, rollout {entry.rollout}, win rate {entry.win_rate:.2f}, "
            f"regret {entry.regret:+.2f}, {entry.regime or 'no regime'}",
            colour=REGIMES.get(entry.regime, 8),
            link=f"e-{entry.id[:12]}" if entry.id in pages else None,
        )
        for entry in shown
    ]
    found = [name for name in REGIMES if any(entry.regime == name for entry in shown)]
    legend = tuple(LegendItem(name=name or "no regime", colour=REGIMES[name]) for name in found)
    svg = scatter(
        dots, label=title, x_label="win rate without hint", y_label="regret", x_range=UNIT, bands=[band] if band else []
    )
    return Panel(title=title, told=told, svg=svg, legend=legend)


def _held_out(evaluations: Sequence[Evaluation]) -> Panel:
    title, told = "Held-out solve rate", "The same plays every time, on environments that nothing was trained on."
    names = list(dict.fromkeys(name for evaluation in evaluations for name in evaluation.parts))
    series = tuple(
        Series(name=name, points=_points((e.rollout, e.parts.get(name)) for e in evaluations), colour=i + 1)
        for i, name in enumerate(names)
    )
    return _panel(title, told, series, "This run was made without a held-out evaluation.", y_range=UNIT)


def _lines(panel: _Lines, rows: Sequence[RolloutRow]) -> Panel:
    series = tuple(
        Series(name=name, points=_points((row.rollout, pick(row)) for row in rows), colour=i + 1)
        for i, (name, pick) in enumerate(panel.picks.items())
    )
    drawn = tuple(line for line in series if line.points)
    missing = "This run has no such figures."
    return _panel(panel.title, panel.told, drawn, missing, y_range=panel.y_range, zero_line=panel.zero_line)


def _panel(
    title: str,
    told: str,
    series: Sequence[Series],
    missing: str,
    *,
    y_range: tuple[float, float] | None = None,
    zero_line: bool = False,
) -> Panel:
    if not series:
        return Panel(title=title, told=told, missing=missing)
    svg = line_chart(series, label=title, y_range=y_range, zero_line=zero_line)
    legend = tuple(LegendItem(name=line.name, colour=line.colour) for line in series)
    return Panel(title=title, told=told, svg=svg, legend=legend if len(legend) > 1 else ())


def _points(values: Iterable[tuple[int, Estimate | float | None]]) -> tuple[Point, ...]:
    points = []
    for rollout, value in values:
        if isinstance(value, Estimate):
            points.append(Point(x=rollout, y=value.value, low=value.low, high=value.high))
        elif value is not None:
            points.append(Point(x=rollout, y=value))
    return tuple(points)


def _counts(
    words: tuple[str, str],
    rows: Sequence[RolloutRow],
    counts: Sequence[Mapping[str, int]],
    colours: Mapping[str, int],
) -> Panel:
    title, told = words
    kept = [(row.rollout, count) for row, count in zip(rows, counts, strict=True) if any(count.values())]
    names = [name for name in colours if any(count.get(name) for _, count in kept)]
    if not names:
        return Panel(title=title, told=told, missing="Nothing to count in this run.")
    parts = [
        Bars(name=name, values=tuple(float(count.get(name, 0)) for _, count in kept), colour=colours[name])
        for name in names
    ]
    svg = stacked_bars(parts, [rollout for rollout, _ in kept], label=title)
    legend = tuple(LegendItem(name=part.name, colour=part.colour) for part in parts)
    return Panel(title=title, told=told, svg=svg, legend=legend)


def _in_order_of_size(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            totals[name] = totals.get(name, 0) + number
    ordered = sorted(totals, key=lambda name: (-totals[name], name))
    return {name: min(place + 1, 8) for place, name in enumerate(ordered)}


def _loss(role: str) -> Pick:
    return lambda row: row.losses.get(role)
