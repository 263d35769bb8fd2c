"""Charts as inline SVG text: pure functions from values to markup, styled by the page's classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from spade_agents.report.axes import Axis, covering, round_ticks

__all__ = ["Bars", "Dot", "Point", "Series", "line_chart", "scatter", "sparkline", "stacked_bars"]

WIDTH, HEIGHT = 520.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 12.0, 34.0

Show = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value of a series, with the ends of its interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A named line; `colour` is the number of one of the page's colours (1 to 8)."""

    name: str
    points: tuple[Point, ...]
    colour: int = 1
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One mark of a scatter; `title` shows when it is pointed at, `link` names a place in the page."""

    x: float
    y: float
    title: str
    colour: int = 1
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """One part of every stacked bar; `values` are in the order of the bars."""

    name: str
    values: tuple[float, ...]
    colour: int = 1


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    y_range: tuple[float, float] | None = None,
    x_label: str = "rollout",
    zero_line: bool = False,
) -> str:
    """Lines with their intervals as bands; `label` is for screen readers, and points tell their values when hovered."""
    points = [point for line in series for point in line.points]
    values = [value for p in points for value in (p.y, p.low, p.high) if value is not None]
    x, y = _axes([p.x for p in points], values, y_range)
    drawn = [_grid(x, y, x_label, whole=True)]
    if zero_line and y.low < 0 < y.high:
        drawn.append(
            f'<line class="zero" x1="{x.start:g}" x2="{x.end:g}" y1="{_n(y.place(0))}" y2="{_n(y.place(0))}"/>'
        )
    drawn += [_band(line, x, y) for line in series]
    drawn += [_line(line, x, y) for line in series]
    return _svg("".join(drawn), label)


def scatter(
    dots: Sequence[Dot],
    *,
    label: str,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] | None = None,
    bands: Sequence[tuple[float, float]] = (),
) -> str:
    """Marks at (x, y), each with a title that shows when it is pointed at; `bands` shades stretches of x."""
    x = Axis(low=0.0, high=1.0, start=LEFT, end=WIDTH - RIGHT)
    if x_range is not None or dots:
        low, high = covering([dot.x for dot in dots], at_least=x_range)
        x = Axis(low=low, high=high, start=LEFT, end=WIDTH - RIGHT)
    low, high = covering([dot.y for dot in dots], at_least=(-0.2, 0.4))
    y = Axis(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)
    shaded = "".join(
        f'<rect class="shade" x="{_n(x.place(a))}" y="{TOP:g}" width="{_n(x.place(b) - x.place(a))}" '
        f'height="{HEIGHT - BOTTOM - TOP:g}"/>'
        for a, b in bands
    )
    zero = f'<line class="zero" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{_n(y.place(0))}" y2="{_n(y.place(0))}"/>'
    middle = _n((HEIGHT - BOTTOM + TOP) / 2)
    title = f'<text class="axis mid" x="10" y="{middle}" transform="rotate(-90 10 {middle})">{escape(y_label)}</text>'
    return _svg(shaded + _grid(x, y, x_label) + zero + title + "".join(_dot(dot, x, y) for dot in dots), label)


def stacked_bars(parts: Sequence[Bars], xs: Sequence[float], *, label: str, y_range: tuple[float, float] | None = None,
                 x_label: str = "rollout", show: Show = "{:g}".format) -> str:  # fmt: skip
    """One bar for each of `xs`, made of the parts in order from the bottom."""
    totals = [sum(part.values[i] for part in parts) for i in range(len(xs))]
    low, high = y_range or covering(totals, at_least=(0.0, 4.0))
    y = Axis(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)
    slot = (WIDTH - LEFT - RIGHT) / max(len(xs), 1)
    width = min(slot * 0.8, 40.0)
    drawn = [_grid(None, y, x_label)]
    every = max(1, -(-len(xs) // 12))
    for i, at in enumerate(xs):
        middle, below = LEFT + slot * (i + 0.5), 0.0
        if i % every == 0:
            drawn.append(f'<text class="tick mid" x="{_n(middle)}" y="{HEIGHT - BOTTOM + 14:g}">{at:g}</text>')
        for part in parts:
            top = below + part.values[i]
            if part.values[i] > 0:
                title = escape(f"{part.name}, {x_label} {at:g}: {show(part.values[i])}")
                drawn.append(
                    f'<rect class="fill c{part.colour}" x="{_n(middle - width / 2)}" y="{_n(y.place(top))}" '
                    f'width="{_n(width)}" height="{_n(y.place(below) - y.place(top))}"><title>{title}</title></rect>'
                )
            below = top
    return _svg("".join(drawn), label)


def sparkline(values: Sequence[float], *, label: str, colour: int = 1) -> str:
    """A line without axes, for a headline; nothing for fewer than two values."""
    if len(values) < 2:
        return ""
    x = Axis(low=0, high=len(values) - 1, start=2, end=118)
    y = Axis(low=min(values), high=max(values), start=28, end=4)
    path = " ".join(f"{_n(x.place(i))},{_n(y.place(value))}" for i, value in enumerate(values))
    end = f'<circle class="dot c{colour}" cx="{_n(x.place(len(values) - 1))}" cy="{_n(y.place(values[-1]))}" r="2.5"/>'
    return (
        f'<svg class="spark" viewBox="0 0 120 32" role="img" aria-label="{escape(label)}">'
        f'<polyline class="line c{colour}" points="{path}"/>{end}</svg>'
    )


def _svg(inside: str, label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(label)}">{inside}</svg>'
    )


def _axes(xs: Sequence[float], ys: Sequence[float], y_range: tuple[float, float] | None) -> tuple[Axis, Axis]:
    low, high = covering(ys) if y_range is None else y_range
    x_low, x_high = (min(xs), max(xs)) if xs else (0.0, 1.0)
    x = Axis(low=x_low, high=x_high, start=LEFT, end=WIDTH - RIGHT)
    return x, Axis(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)


def _grid(x: Axis | None, y: Axis, x_label: str, *, whole: bool = False) -> str:
    drawn = []
    for value in round_ticks(y.low, y.high):
        place = _n(y.place(value))
        drawn.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{place}" y2="{place}"/>')
        drawn.append(f'<text class="tick end" x="{LEFT - 7:g}" y="{_n(y.place(value) + 3.5)}">{value:g}</text>')
    if x is not None:
        for value in round_ticks(x.low, x.high, at_most=8, whole=whole):
            place = _n(x.place(value))
            drawn.append(f'<text class="tick mid" x="{place}" y="{HEIGHT - BOTTOM + 14:g}">{value:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(f'<text class="axis mid" x="{_n(middle)}" y="{HEIGHT - 4:g}">{escape(x_label)}</text>')
    return "".join(drawn)


def _band(line: Series, x: Axis, y: Axis) -> str:
    ends = [(p.x, p.low, p.high) for p in line.points if p.low is not None and p.high is not None]
    if len(ends) < 2:
        return "".join(
            f'<line class="whisker c{line.colour}" x1="{_n(x.place(at))}" x2="{_n(x.place(at))}" '
            f'y1="{_n(y.place(low))}" y2="{_n(y.place(high))}"/>'
            for at, low, high in ends
        )
    upper = [f"{_n(x.place(at))},{_n(y.place(high))}" for at, _, high in ends]
    lower = [f"{_n(x.place(at))},{_n(y.place(low))}" for at, low, _ in reversed(ends)]
    return f'<polygon class="band c{line.colour}" points="{" ".join(upper + lower)}"/>'


def _line(line: Series, x: Axis, y: Axis) -> str:
    places = [(x.place(p.x), y.place(p.y), p) for p in line.points]
    path = " ".join(f"{_n(px)},{_n(py)}" for px, py, _ in places)
    dashed = " dashed" if line.dashed else ""
    marks = "".join(
        f'<circle class="dot c{line.colour}" cx="{_n(px)}" cy="{_n(py)}" r="3">'
        f"<title>{escape(_told(line.name, p))}</title></circle>"
        for px, py, p in places
    )
    return f'<polyline class="line c{line.colour}{dashed}" points="{path}"/>{marks}'


def _told(name: str, point: Point) -> str:
    interval = "" if point.low is None or point.high is None else f" (95 % {point.low:.3g} to {point.high:.3g})"
    return f"{name}, {point.x:g}: {point.y:.3g}{interval}"


def _dot(dot: Dot, x: Axis, y: Axis) -> str:
    mark = (
        f'<circle class="mark c{dot.colour}" cx="{_n(x.place(dot.x))}" cy="{_n(y.place(dot.y))}" r="5">'
        f"<title>{escape(dot.title)}</title></circle>"
    )
    return mark if dot.link is None else f'<a href="#{escape(dot.link)}">{mark}</a>'


def _n(value: float) -> str:
    """A place in SVG units, to a tenth: finer is invisible and makes the page heavy."""
    return f"{value:.1f}".removesuffix(".0")
