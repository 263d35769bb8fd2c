"""A chart of means with intervals, one row each, as inline SVG: what a study's arms are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from spade_agents.report.axes import Axis, covering, round_ticks
from spade_environments.wording import counted

__all__ = ["ForestRow", "forest"]

ROW, TOP, BOTTOM, WIDTH, RIGHT = 24.0, 8.0, 34.0, 520.0, 14.0
LETTER = 6.4
"""Width of a letter of a row's name, in SVG units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestRow:
    """One arm: its mean, the ends of its interval where it has one, and the single values behind it.

    Attributes:
        name: at the left edge.
        value: the mean; `None` where there is none, and the row then says so.
        low, high: ends of the interval.
        values: of single runs, drawn small.
        colour: the number of one of the page's colours (1 to 8).
    """

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()
    colour: int = 1


def forest(
    rows: Sequence[ForestRow],
    *,
    label: str,
    x_label: str,
    x_range: tuple[float, float] | None = None,
    marked: float | None = None,
) -> str:
    """Rows from top to bottom, each a dot with a whisker for its interval, single values beside it.

    Args:
        rows: in reading order.
        label: for screen readers.
        x_label: under the axis.
        x_range: that the axis covers at least.
        marked: where a dashed line stands, such as the reference arm's mean.
    """
    shown = [value for row in rows for value in (row.value, row.low, row.high, *row.values) if value is not None]
    low, high = covering([*shown, *([] if marked is None else [marked])], at_least=x_range)
    left = 16 + LETTER * max((len(row.name) for row in rows), default=0)
    height = TOP + ROW * len(rows) + BOTTOM
    x, floor = Axis(low=low, high=high, start=left, end=WIDTH - RIGHT), height - BOTTOM
    drawn = []
    for value in round_ticks(low, high):
        place = _n(x.place(value))
        drawn.append(f'<line class="grid" x1="{place}" x2="{place}" y1="{TOP:g}" y2="{_n(floor)}"/>')
        drawn.append(f'<text class="tick mid" x="{place}" y="{_n(floor + 14)}">{value:g}</text>')
    middle = _n((left + WIDTH - RIGHT) / 2)
    drawn.append(f'<text class="axis mid" x="{middle}" y="{_n(height - 4)}">{escape(x_label)}</text>')
    if marked is not None:
        place = _n(x.place(marked))
        drawn.append(f'<line class="zero" x1="{place}" x2="{place}" y1="{TOP:g}" y2="{_n(floor)}"/>')
    drawn += [_row(row, x, TOP + ROW * (number + 0.5)) for number, row in enumerate(rows)]
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(label)}">'
        f"{''.join(drawn)}</svg>"
    )


def _row(row: ForestRow, x: Axis, y: float) -> str:
    name = f'<text class="tick end" x="{_n(x.start - 9)}" y="{_n(y + 3.5)}">{escape(row.name)}</text>'
    if row.value is None:
        return f'{name}<text class="tick" x="{_n(x.start + 6)}" y="{_n(y + 3.5)}">not run</text>'
    singles = "".join(
        f'<circle class="mark c{row.colour}" cx="{_n(x.place(value))}" cy="{_n(y)}" r="2.5"/>' for value in row.values
    )
    whisker = ""
    if row.low is not None and row.high is not None:
        ends = f'x1="{_n(x.place(row.low))}" x2="{_n(x.place(row.high))}" y1="{_n(y)}" y2="{_n(y)}"'
        whisker = f'<line class="whisker c{row.colour}" {ends}/>'
    dot = (
        f'<circle class="dot c{row.colour}" cx="{_n(x.place(row.value))}" cy="{_n(y)}" r="5">'
        f"<title>{escape(_told(row))}</title></circle>"
    )
    return name + whisker + singles + dot


def _told(row: ForestRow) -> str:
    interval = "no interval" if row.low is None or row.high is None else f"95 % {row.low:.3f} to {row.high:.3f}"
    return f"{row.name}: {row.value:.3f} ({interval}), {counted(len(row.values), 'run')}"


def _n(value: float) -> str:
    """A place in SVG units, to a tenth, as in the other charts."""
    return f"{value:.1f}".removesuffix(".0")
