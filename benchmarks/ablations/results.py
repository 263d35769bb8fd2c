"""From the results of jobs to the rows of a table: means over seeds, their intervals, differences on the same seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from spade_agents.statistics import Interval, mean_over_runs

__all__ = ["FIGURES", "REFERENCE", "ArmRow", "Paired", "arm_rows", "figures_of", "learnable_share", "paired"]

LEARNABLE = (0.2, 0.8)
"""Win rates, both included, at which an environment has something to teach."""
REFERENCE = "SPADE"
FIGURES = {
    "held-out": "held-out solve rate",
    "learnable": "learnable share",
    "difficulty": "difficulty",
    "gold steps": "gold steps",
    "diversity": "diversity",
    "certified": "certified share",
}
"""The figures of a run, and what a table calls them."""

Row = Mapping[str, Any]
Runs = Mapping[int, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm over its seeds.

    Attributes:
        arm: its name.
        seeds: of its finished runs.
        values: of each figure, one a seed that has it.
        means: of each figure over the seeds.
        intervals: Student's over the seeds; `None` where there is none.
        against: of each figure, the arm less the reference on the same seeds.
        gained: held-out solve rate less that of the start weights on the same plays.
        seconds: of a run, on average.
    """

    arm: str
    seeds: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]
    means: Mapping[str, float]
    intervals: Mapping[str, Interval | None]
    against: Mapping[str, Interval | None]
    seconds: float
    gained: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """SPADE's designer against the frozen one, seed by seed.

    Attributes:
        seeds: finished.
        spade, frozen: learnable share of the designs of each seed; the measure that was named beforehand.
        gain: SPADE less frozen, over seeds; `None` for fewer than two.
        beside: other figures of both designers, mean over seeds: name, SPADE's, the frozen one's.
        signal: of each update on designs: rollout, designs, their mean raw reward, over seeds.
    """

    seeds: tuple[int, ...]
    spade: tuple[float, ...]
    frozen: tuple[float, ...]
    gain: Interval | None
    beside: tuple[tuple[str, float, float], ...] = ()
    signal: tuple[tuple[int, float, float], ...] = ()

    @property
    def differences(self) -> tuple[float, ...]:
        """SPADE less frozen, by seed."""
        return tuple(ours - theirs for ours, theirs in zip(self.spade, self.frozen, strict=True))


def figures_of(result: Row) -> dict[str, float]:
    """The figures of one run; those that it has not are absent.

    Learnable share and difficulty are of the environments that the run trained on, by the win rate of its own agent
    while it did. The first set is left out: in every arm the start weights made it.
    """
    sets = result["sets"][1:] or result["sets"]
    played = [entry for one in sets for entry in one["environments"] if not entry["fault"]]
    rates = [entry["win_rate"] for entry in played if entry["win_rate"] is not None]
    steps = [found for entry in played if (found := result["gold_steps"].get(entry["id"])) is not None]
    attempts: Counter[str] = Counter()
    for design in result["designs"][1:] or result["designs"]:
        attempts.update(design["verdicts"])
    decided = attempts.total() - attempts["undecided"]
    found = {
        "held-out": result["held_out"]["win_rate"],
        "learnable": learnable_share(rates),
        "difficulty": 1 - fmean(rates) if rates else None,
        "gold steps": fmean(steps) if steps else None,
        "diversity": result["diversity"]["vendi"] if result["diversity"]["designs"] else None,
        "certified": (attempts["certified"] + attempts["no_hint"]) / decided if decided else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def learnable_share(rates: Sequence[float | None]) -> float | None:
    """Share of the environments played that the agent wins neither nearly always nor nearly never."""
    known = [rate for rate in rates if rate is not None]
    low, high = LEARNABLE
    return sum(low <= rate <= high for rate in known) / len(known) if known else None


def arm_rows(results: Mapping[str, Runs], arms: Sequence[str], *, before: float | None = None) -> tuple[ArmRow, ...]:
    """One row for each arm, in the order of `arms`; an arm without a finished run has an empty one.

    Args:
        results: of the arms' runs, by seed.
        arms: to show.
        before: held-out solve rate of the start weights.
    """
    figures = {arm: {seed: figures_of(row) for seed, row in results.get(arm, {}).items()} for arm in arms}
    reference = figures.get(REFERENCE, {})
    return tuple(_row(arm, figures[arm], results.get(arm, {}), reference, before) for arm in arms)


def _row(
    arm: str, figures: Mapping[int, Row], results: Runs, reference: Mapping[int, Row], before: float | None
) -> ArmRow:
    values = {name: tuple(row[name] for row in figures.values() if name in row) for name in FIGURES}
    shared = [(row, reference[seed]) for seed, row in figures.items() if seed in reference]
    differences = {
        name: [ours[name] - theirs[name] for ours, theirs in shared if name in ours and name in theirs]
        for name in FIGURES
    }
    return ArmRow(
        arm=arm,
        seeds=tuple(figures),
        values=values,
        means={name: fmean(found) for name, found in values.items() if found},
        intervals={name: mean_over_runs(found) for name, found in values.items()},
        against={} if arm == REFERENCE else {name: mean_over_runs(found) for name, found in differences.items()},
        seconds=fmean(row["seconds"] for row in results.values()) if results else 0.0,
        gained=None if before is None else mean_over_runs([value - before for value in values["held-out"]]),
    )


def paired(pairs: Runs, runs: Runs) -> Paired:
    """What the pairs of runs say of the designer.

    Args:
        pairs: results of pairs, by seed; one whose designer has no design that could be played is left out.
        runs: SPADE's runs of the same seeds, for what its designer was trained on.
    """
    shares = {seed: (_share(row["spade"]), _share(row["frozen"])) for seed, row in pairs.items()}
    known = {seed: pair for seed, pair in shares.items() if None not in pair}
    ours, theirs = ([float(pair[place] or 0.0) for pair in known.values()] for place in (0, 1))
    return Paired(
        seeds=tuple(known),
        spade=tuple(ours),
        frozen=tuple(theirs),
        gain=mean_over_runs([a - b for a, b in zip(ours, theirs, strict=True)]),
        beside=tuple(_beside([pairs[seed] for seed in known])),
        signal=_signal([runs[seed] for seed in known if seed in runs]),
    )


def _share(designer: Row) -> float | None:
    """Learnable share of a designer's designs: its mean over both agents."""
    shares = [found for rates in designer["win_rates"].values() if (found := learnable_share(rates)) is not None]
    return fmean(shares) if shares else None


def _beside(rows: Sequence[Row]) -> list[tuple[str, float, float]]:
    def mean(name: str, of: str) -> float:
        return fmean(_OTHERS[name](row[of]) for row in rows)

    return [(name, mean(name, "spade"), mean(name, "frozen")) for name in _OTHERS] if rows else []


def _win_rate(designer: Row) -> float:
    rates = [rate for found in designer["win_rates"].values() for rate in found if rate is not None]
    return fmean(rates) if rates else 0.0


_OTHERS = {
    "certified share of attempts": lambda designer: len(designer["sources"]) / designer["asked"],
    "agents' win rate": _win_rate,
    "distinct programs": lambda designer: designer["diversity"]["distinct_share"],
    "Vendi score / n": lambda designer: designer["diversity"]["vendi"],
    "largest family": lambda designer: designer["diversity"]["largest_family"],
}


def _signal(rows: Sequence[Row]) -> tuple[tuple[int, float, float], ...]:
    by_rollout: dict[int, list[Row]] = {}
    for row in rows:
        for update in row["designer"]:
            if update["designer_reward"] is not None:
                by_rollout.setdefault(update["rollout"], []).append(update)
    return tuple(
        (rollout, fmean(u["designer"] for u in found), fmean(u["designer_reward"] for u in found))
        for rollout, found in sorted(by_rollout.items())
    )
