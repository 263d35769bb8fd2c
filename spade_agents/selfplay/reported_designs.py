"""What a report tells of a run's designs: where its attempts ended, and how different its designs are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from spade_agents.designer.attempts import AttemptVerdict
from spade_agents.diversity import CollapseSettings, collapse_alarm
from spade_agents.report import DesignDiversity, DesignEnd, Designs
from spade_agents.selfplay.pool_figures import diversity_of, grounding_of
from spade_environments import EnvironmentSpec

__all__ = ["reported_alarms", "reported_designs"]

Row = Mapping[str, Any]


def reported_designs(rows: Sequence[Row], specs: Sequence[EnvironmentSpec]) -> Designs | None:
    """The designs of a run.

    Args:
        rows: of its metrics.
        specs: the environments of its pool, oldest first.

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
        diversity=(*_newest(found[-1]), *_pool(specs)),
    )


def reported_alarms(
    rows: Sequence[Row], specs: Sequence[EnvironmentSpec] = (), settings: CollapseSettings | None = None
) -> tuple[str, ...]:
    """What is wrong with the newest designs and since when, of a collapse that has passed when it was, and what is
    wrong with the newest of the pool.
    """
    designed = [row for row in rows if "design" in row]
    limits = settings or CollapseSettings()
    newest = [spec.source for spec in specs[-limits.window :]] if designed else []
    pool = collapse_alarm(diversity_of(newest, limits), limits)
    return (*_newest_alarms(designed), *(f"The newest of the pool are of one kind: {alarm}" for alarm in pool))


def _newest_alarms(designed: Sequence[Row]) -> tuple[str, ...]:
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


def _newest(last: Row) -> list[DesignDiversity]:
    recent = last.get("recent")
    if not recent or not recent["designs"]:
        return []
    return [
        DesignDiversity(
            name="newest designs, admitted or not",
            programs=recent["designs"],
            vendi=recent["vendi"],
            longest_run=recent.get("longest_run"),
            distinct=recent["distinct_share"],
            largest_family=recent["largest_family"],
        )
    ]


def _pool(specs: Sequence[EnvironmentSpec]) -> list[DesignDiversity]:
    """The pool, and where it has both kinds its designs with a document and without one, as many of each."""
    if not specs:
        return []
    found = diversity_of([spec.source for spec in specs])
    whole = found.designs == len(specs)
    told = [
        DesignDiversity(
            name="the pool" if whole else f"the newest of the pool's {len(specs)}",
            programs=found.designs,
            vendi=found.vendi,
            longest_run=found.longest_run,
            distinct=found.distinct_share,
            largest_family=found.largest_family,
        )
    ]
    grounding = grounding_of(specs)
    scores = {"with a document": grounding.grounded, "without a document": grounding.ungrounded}
    return told + [
        DesignDiversity(name=f"of the pool, {name}", programs=grounding.compared, vendi=score)
        for name, score in scores.items()
        if score is not None
    ]


def _summed(designs: Sequence[Row], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for design in designs:
        total.update(design.get(name, {}))
    return total
