"""What a report tells of a run's designs: where its attempts ended, and how different its designs are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from spade_agents.designer.attempts import AttemptVerdict
from spade_agents.diversity import tfidf_similarity, vendi_score
from spade_agents.report import DesignDiversity, DesignEnd, Designs

__all__ = ["reported_alarms", "reported_designs"]

COMPARED = 300
"""At most so many environments of a pool, the newest, are compared with each other: it takes their number squared."""

Row = Mapping[str, Any]


def reported_designs(rows: Sequence[Row], sources: Sequence[str]) -> Designs | None:
    """The designs of a run.

    Args:
        rows: of its metrics.
        sources: the programs of its pool, oldest first.

    Returns:
        `None` where the run designed nothing.
    """
    found = [row["design"] for row in rows if "design" in row]
    if not found:
        return None
    verdicts, gates = _summed(found, "verdicts"), _summed(found, "gates")
    others = verdicts[AttemptVerdict.REJECTED] - gates.total()
    ends = [
        DesignEnd(name="certified", attempts=verdicts[AttemptVerdict.CERTIFIED]),
        *(DesignEnd(name=f"rejected: {name.replace('_', ' ')}", attempts=count) for name, count in gates.most_common()),
        DesignEnd(name="rejected: gate not told", attempts=others),
        DesignEnd(name="certified, but no hint passed", attempts=verdicts[AttemptVerdict.NO_HINT]),
        DesignEnd(name="undecided, by no fault of the design", attempts=verdicts[AttemptVerdict.UNDECIDED]),
    ]
    return Designs(
        slots=sum(design["slots"] for design in found),
        admitted=sum(design["admitted"] for design in found),
        ends=tuple(end for end in ends if end.attempts),
        diversity=tuple(_diversity(found[-1], sources)),
    )


def reported_alarms(rows: Sequence[Row]) -> tuple[str, ...]:
    """What is wrong with the newest designs and since when; of a collapse that has passed, when it was."""
    designed = [row for row in rows if "design" in row]
    alarmed = [place for place, row in enumerate(designed) if row["design"].get("alarms")]
    if not alarmed:
        return ()
    last = alarmed[-1]
    first = next(place for place in alarmed if set(range(place, last + 1)) <= set(alarmed))
    since, until = designed[first]["rollout"], designed[last]["rollout"]
    told = designed[last]["design"]["alarms"]
    if last == len(designed) - 1:
        return tuple(f"Designs collapse, since rollout {since}: {alarm}" for alarm in told)
    when = f"at rollout {since}" if since == until else f"from rollout {since} to {until}"
    return tuple(f"Designs had collapsed {when}, and no longer do: {alarm}" for alarm in told)


def _diversity(last: Row, sources: Sequence[str]) -> list[DesignDiversity]:
    told = []
    recent = last.get("recent")
    if recent and recent["designs"]:
        told.append(
            DesignDiversity(
                name="newest designs, admitted or not",
                programs=recent["designs"],
                vendi=recent["vendi"],
                longest_run=recent.get("longest_run"),
                distinct=recent["distinct_share"],
                largest_family=recent["largest_family"],
            )
        )
    if sources:
        compared = sources[-COMPARED:]
        name = "the pool" if len(compared) == len(sources) else f"the newest of the pool's {len(sources)}"
        score = vendi_score(tfidf_similarity(compared)) / len(compared)
        told.append(DesignDiversity(name=name, programs=len(compared), vendi=score))
    return told


def _summed(designs: Sequence[Row], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for design in designs:
        total.update(design.get(name, {}))
    return total
