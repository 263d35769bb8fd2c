"""What a regeneration's row of metrics tells of its designs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from spade_agents.designer.attempts import AttemptVerdict, DesignOutcome
from spade_agents.designer.summary import summarise
from spade_agents.diversity import CollapseSettings, Diversity, collapse_alarm, measure
from spade_environments.certificate import MinHash, fingerprint

__all__ = ["DesignFigures", "design_figures", "near_duplicates", "newest_programs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignFigures:
    """What a regeneration's row of metrics tells of it.

    Attributes:
        slots: asked for.
        admitted: environments that entered the pool.
        verdicts: attempts by verdict.
        gates: rejected attempts by the gate (or fault of the completion) that refused them.
        distinct: normalised syntax trees among the programs of all attempts.
        programs: attempts that held a program that parses.
        filled_by: slots filled by the first attempt, the second one, and so on.
        repairs_asked, repairs_mended: attempts that were shown the one before and its repair, and how many of those
            filled their slot: what repairs save.
        recent: diversity of the newest designs, this set's among them.
        alarms: what is wrong with it, one sentence each.
    """

    slots: int = 0
    admitted: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    gates: Mapping[str, int] = field(default_factory=dict)
    distinct: int = 0
    programs: int = 0
    filled_by: tuple[int, ...] = ()
    repairs_asked: int = 0
    repairs_mended: int = 0
    recent: Diversity | None = None
    alarms: tuple[str, ...] = ()

    @property
    def certified_share(self) -> float | None:
        """Certified attempts among those that could be decided (one refused for novelty alone is not certified)."""
        decided = sum(count for verdict, count in self.verdicts.items() if verdict != AttemptVerdict.UNDECIDED)
        passed = self.verdicts.get(AttemptVerdict.CERTIFIED, 0) + self.verdicts.get(AttemptVerdict.NO_HINT, 0)
        return passed / decided if decided else None

    def row(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "slots": self.slots,
            "admitted": self.admitted,
            "attempts": sum(self.verdicts.values()),
            "certified_share": self.certified_share,
            "verdicts": dict(self.verdicts),
            "gates": dict(self.gates),
            "programs": self.programs,
            "distinct": self.distinct,
            "filled_by": list(self.filled_by),
            "repairs": {"asked": self.repairs_asked, "mended": self.repairs_mended},
            "recent": None if self.recent is None else asdict(self.recent),
            "alarms": list(self.alarms),
        }


def newest_programs(
    outcomes: Sequence[DesignOutcome], earlier: Sequence[str], settings: CollapseSettings
) -> tuple[str, ...]:
    """The programs of the newest designs, at most a window of them: of each slot the last one that parses.

    Attempts of one slot mend each other and resemble each other for that; and novelty keeps copies out of the pool, so
    that only what was written shows a collapse.
    """
    last = [
        next((a.spec.source for a in reversed(outcome.attempts) if a.spec and _mark(a.spec.source)), None)
        for outcome in outcomes
    ]
    return (*earlier, *(source for source in last if source is not None))[-settings.window :]


def design_figures(
    outcomes: Sequence[DesignOutcome], admitted: int, recent: Sequence[str], settings: CollapseSettings
) -> DesignFigures:
    """Count the attempts of a set, and measure the newest designs.

    Args:
        outcomes: of the set.
        admitted: environments that entered the pool.
        recent: see `newest_programs`.
        settings: when they count as collapsed.
    """
    attempts = [attempt for outcome in outcomes for attempt in outcome.attempts]
    rejected = [attempt for attempt in attempts if attempt.verdict is AttemptVerdict.REJECTED]
    marks_of_recent = [fingerprint(source) for source in recent]
    families = [summarise(source) for source in recent]
    diversity = measure(recent, marks_of_recent, families, near=near_duplicates(settings.near))
    marks = [mark for attempt in attempts if attempt.spec and (mark := _mark(attempt.spec.source))]
    return DesignFigures(
        slots=len(outcomes),
        admitted=admitted,
        verdicts=Counter(attempt.verdict.value for attempt in attempts),
        gates=Counter(str(attempt.gate) for attempt in rejected),
        distinct=len(set(marks)),
        programs=len(marks),
        filled_by=_filled_by(outcomes),
        repairs_asked=sum(attempt.repaired for attempt in attempts),
        repairs_mended=sum(a.repaired and a.verdict is AttemptVerdict.CERTIFIED for a in attempts),
        recent=diversity,
        alarms=collapse_alarm(diversity, settings),
    )


def _filled_by(outcomes: Sequence[DesignOutcome]) -> tuple[int, ...]:
    numbers = Counter(len(outcome.attempts) for outcome in outcomes if outcome.spec is not None)
    return tuple(numbers[number] for number in range(1, max(numbers, default=0) + 1))


def near_duplicates(threshold: float) -> Callable[[str, str], bool]:
    """Whether two programs have normalised syntax trees at least `threshold` alike, as the novelty rule sees them."""
    sketch = cache(MinHash.of)
    return lambda before, after: sketch(before).similarity(sketch(after)) >= threshold


def _mark(source: str) -> str | None:
    try:
        return fingerprint(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
