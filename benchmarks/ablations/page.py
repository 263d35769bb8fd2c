"""The table, the figure and the sentences of the ablations: what is shown, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ablations.arms import ARMS
from ablations.results import FIGURES, REFERENCE, ArmRow, Paired
from spade_agents.report.forest import ForestRow, forest
from spade_agents.report.study import StudyFigure, StudyPage, StudyTable, render_study
from spade_agents.statistics import Interval
from spade_environments.wording import counted

__all__ = ["page", "print_tables", "sentences"]

OTHERS = ("held-out, less the start's", "held-out, less SPADE's", "learnable, less SPADE's")
HEADS = ("arm", "what it is", "runs", *FIGURES.values(), *OTHERS, "min")
FEWEST_PAIRS = 5
COMPARED = ("held-out", "learnable")
PAIRED_HEADS = ("seed", "SPADE", "frozen designer", "gain")
MEASURE = (
    "Learnable share of designs (won in 20 to 80 % of the plays), drawn from the last weights and from the frozen ones "
    "on the same requests, certified, and played by the agents of both runs. Both agents, and not the start's: the "
    "designer is rewarded for what the agent finds learnable after it has learned, and one run's agent alone would "
    "know that run's designs."
)
_PANELS = {
    "held-out": ("Solve rate of known families at the end, the same plays for every run.", (0.0, 0.6)),
    "learnable": ("Of the environments trained on, those that the agent wins in 20 to 80 % of the plays.", (0.0, 1.0)),
    "difficulty": ("1 − the agent's win rate on the environments while it trains on them.", (0.0, 0.6)),
    "diversity": ("Vendi score / n of the 32 newest environments trained on.", (0.0, 1.0)),
}


def print_tables(rows: Sequence[ArmRow], found: Paired, *, console: Console | None = None) -> None:
    """Both tables, then what is and is not shown."""
    console = console or Console(width=220)
    for table in _tables(rows, found):
        drawn = Table(*table.heads, title=table.title)
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for title, lines in zip(("shown", "not shown"), sentences(rows, found), strict=True):
        for line in lines or ("nothing",):
            console.print(f"{title}: {line}", markup=False, highlight=False)


def page(rows: Sequence[ArmRow], found: Paired, facts: Mapping[str, Any]) -> str:
    """The page: sentences, one figure of four panels and the paired one, and the tables."""
    shown, not_shown = sentences(rows, found)
    return render_study(
        StudyPage(
            title="What the designer, the corpus, the memory and the reward are worth at nano size",
            facts=tuple((name, str(value)) for name, value in facts.items() if value not in (None, "")),
            shown=shown,
            not_shown=not_shown,
            panels=(*(_panel(rows, name) for name in _PANELS), *([_paired_panel(found)] if found.seeds else [])),
            tables=tuple(_tables(rows, found)),
        )
    )


def sentences(rows: Sequence[ArmRow], found: Paired) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the results show, and what they do not; the second list is as plain as the first."""
    told = [_against_the_start(row) for row in rows if row.arm == REFERENCE and row.gained]
    others = [row for row in rows if row.arm != REFERENCE]
    told += [_against(row, name) for row in others for name in COMPARED if row.against.get(name)]
    shown, not_shown = ([sentence for sentence, holds in told if holds is wanted] for wanted in (True, False))
    few = [row.arm for row in others if row.seeds and not all(row.against.get(name) for name in COMPARED)]
    if few:
        not_shown.append(f"Too few seeds beside SPADE's to compare: {', '.join(few)}.")
    absent = [row.arm for row in rows if not row.seeds]
    if absent:
        not_shown.append(f"No run is finished: {', '.join(absent)}.")
    sentence, holds = _designer_learns(found)
    (shown if holds else not_shown).append(sentence)
    not_shown.append("Families never seen are not played here: nano solves none of them, before or after training.")
    return tuple(shown), tuple(not_shown)


def _against_the_start(row: ArmRow) -> tuple[str, bool]:
    assert row.gained is not None
    return _told(f"{row.arm}, held-out solve rate: {_signed(row.gained)} against the start weights", row.gained)


def _against(row: ArmRow, name: str) -> tuple[str, bool]:
    interval = row.against[name]
    assert interval is not None
    return _told(f"{row.arm}, {FIGURES[name]}: {_signed(interval)} against SPADE", interval)


def _told(words: str, interval: Interval) -> tuple[str, bool]:
    told = f"{words} over {interval.n} seeds"
    return (f"{told}.", True) if interval.excludes_zero else (f"{told}: the interval holds 0.", False)


def _designer_learns(found: Paired) -> tuple[str, bool]:
    if found.gain is None:
        few = f"{counted(len(found.seeds), 'paired seed')} finished, at least {FEWEST_PAIRS} needed"
        return f"Whether the designer learns: not estimable ({few}).", False
    told = (
        f"the learnable share of the trained designer's designs is {_signed(found.gain)} against the frozen one's "
        f"over {found.gain.n} paired seeds"
    )
    if found.gain.n < FEWEST_PAIRS:
        return f"Whether the designer learns, yet: {told}; at least {FEWEST_PAIRS} are needed.", False
    if not found.gain.excludes_zero:
        return f"That the designer learns: {told}; the interval holds 0.", False
    return f"The designer {'learns' if found.gain.low > 0 else 'gets worse'}: {told}.", True


def _tables(rows: Sequence[ArmRow], found: Paired) -> list[StudyTable]:
    tables = [
        StudyTable(
            title="Arms",
            told="Means over seeds, 95 % intervals (Student's, seeds as the unit); differences on the same seeds. "
            "Learnable share, difficulty and gold steps are of the environments trained on, the first set left out.",
            heads=HEADS,
            rows=tuple(_arm_cells(row) for row in rows),
        )
    ]
    if found.seeds:
        tables.append(
            StudyTable(title="Does the designer learn?", told=MEASURE, heads=PAIRED_HEADS, rows=_paired_cells(found))
        )
    if found.signal:
        tables.append(
            StudyTable(
                title="What the designer was trained on",
                told="Each update on designs, mean over SPADE's paired runs; the reward counts rejected attempts.",
                heads=("rollout", "designs", "raw reward"),
                rows=tuple((str(at), f"{count:.1f}", f"{reward:+.3f}") for at, count, reward in found.signal),
            )
        )
    return tables


def _arm_cells(row: ArmRow) -> tuple[str, ...]:
    if not row.seeds:
        return (row.arm, ARMS[row.arm].told, "0", *["not run"] * (len(FIGURES) + len(OTHERS)), "")
    figures = (_cell(row, name) for name in FIGURES)
    against = ("" if row.arm == REFERENCE else _signed(row.against.get(name)) for name in COMPARED)
    others = (_signed(row.gained), *against)
    return (row.arm, ARMS[row.arm].told, str(len(row.seeds)), *figures, *others, f"{row.seconds / 60:.1f}")


def _cell(row: ArmRow, name: str) -> str:
    if name not in row.means:
        return "–"
    interval = row.intervals[name]
    told = f"{row.means[name]:.3f}"
    return f"{told} [{interval.low:.3f}, {interval.high:.3f}]" if interval else f"{told} [not estimable]"


def _paired_cells(found: Paired) -> tuple[tuple[str, ...], ...]:
    triples = zip(found.seeds, found.spade, found.frozen, found.differences, strict=True)
    seeds = [(str(seed), f"{ours:.3f}", f"{theirs:.3f}", f"{gain:+.3f}") for seed, ours, theirs, gain in triples]
    count = len(found.seeds)
    mean = ("mean", f"{sum(found.spade) / count:.3f}", f"{sum(found.frozen) / count:.3f}", _signed(found.gain))
    beside = [(name, f"{ours:.3f}", f"{theirs:.3f}", f"{ours - theirs:+.3f}") for name, ours, theirs in found.beside]
    return (*seeds, mean, *beside)


def _signed(interval: Interval | None) -> str:
    if interval is None:
        return "not estimable"
    return f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def _panel(rows: Sequence[ArmRow], name: str) -> StudyFigure:
    told, at_least = _PANELS[name]
    title = FIGURES[name]
    reference = next((row.means.get(name) for row in rows if row.arm == REFERENCE), None)
    drawn = [_forest_row(row.arm, row.means.get(name), row.intervals.get(name), row.values[name]) for row in rows]
    svg = forest(drawn, label=title, x_label=title, x_range=at_least, marked=reference)
    return StudyFigure(title=title.capitalize(), told=told, svg=svg)


def _paired_panel(found: Paired) -> StudyFigure:
    singles = [
        _forest_row(f"seed {seed}", gain, None, (gain,))
        for seed, gain in zip(found.seeds, found.differences, strict=True)
    ]
    mean = sum(found.differences) / len(found.seeds)
    rows = [*singles, _forest_row("mean", mean, found.gain, found.differences)]
    title = "Gain in learnable share, SPADE less the frozen designer"
    svg = forest(rows, label=title, x_label="gain in learnable share", x_range=(-0.2, 0.2), marked=0.0)
    return StudyFigure(title=title, told="Designs of both on the same requests, played by both runs' agents.", svg=svg)


def _forest_row(name: str, value: float | None, interval: Interval | None, values: tuple[float, ...]) -> ForestRow:
    low, high = (interval.low, interval.high) if interval else (None, None)
    return ForestRow(name=name, value=value, low=low, high=high, values=values, colour=1 if name == REFERENCE else 6)
