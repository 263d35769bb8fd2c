"""What a pool tells of itself: counts by gate, diversity, difficulty by a reference agent, where it came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from spade_agents.designer.attempts import DesignOutcome
from spade_agents.designer.summary import summarise
from spade_agents.diversity import CollapseSettings, Diversity, collapse_alarm, measure
from spade_agents.rewards import Regime, mean_return
from spade_agents.selfplay.design_figures import design_figures, near_duplicates, newest_programs
from spade_agents.selfplay.design_journal import read_slots
from spade_agents.selfplay.pool import OutcomeRow, Pool
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Verdict, fingerprint

__all__ = ["Difficulty", "Grounding", "PoolFigures", "diversity_of", "grounding_of", "pool_figures", "pool_folder"]

COMPARED = 300
"""At most so many environments, the newest, are compared with each other: it takes their number squared."""
LEARNABLE = (0.2, 0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """How hard a pool is for the agent that played it.

    Attributes:
        environments: with a win rate.
        win_rate: mean over them; by_skill: and over those of each skill.
        learnable: share with a win rate in [0.2, 0.8].
        regret: mean ρ over those whose arms were both played; `None` where none were.
        regimes: environments by regime.
    """

    environments: int
    win_rate: float
    learnable: float
    by_skill: Mapping[str, float] = field(default_factory=dict)
    regret: float | None = None
    regimes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounding:
    """Vendi score / programs of designs that had a document and of those that had none, as many of each.

    Attributes:
        compared: programs on either side; 0 where one side has none.
        grounded, ungrounded: their scores; `None` where there is nothing to compare.
    """

    compared: int = 0
    grounded: float | None = None
    ungrounded: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """A pool in numbers.

    Attributes:
        name: of its folder.
        environments: in it; `certified` ones among them.
        skills, domains, designers, variants: environments of each.
        gold_steps: fewest, median and most messages of a solution.
        attempts: what became of all attempts, as in a run's metrics; `None` for a pool without a journal.
        tokens: of the attempts in the journal, in and out.
        diversity: of the newest environments, at most `COMPARED`.
        grounding: what documents are worth.
        alarms: what is wrong with the diversity of the newest of them.
        difficulty: `None` where nobody played it.
    """

    name: str
    environments: int
    certified: int
    skills: Mapping[str, int]
    domains: Mapping[str, int]
    designers: Mapping[str, int]
    variants: Mapping[str, int]
    gold_steps: tuple[int, float, int] | None
    diversity: Diversity
    grounding: Grounding
    alarms: tuple[str, ...] = ()
    attempts: Mapping[str, Any] | None = None
    tokens: tuple[int, int] | None = None
    difficulty: Difficulty | None = None

    def row(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def pool_folder(path: Path) -> Path:
    """The pool that a path means: the folder itself, or that of a run."""
    return path / "environments" if (path / "environments" / "pool.json").exists() else path


def pool_figures(path: Path, collapse: CollapseSettings | None = None) -> PoolFigures:
    """Count and measure a pool.

    Args:
        path: of a pool, or of a run.
        collapse: when its diversity raises an alarm.

    Raises:
        UsageError: there is no pool, or it is damaged.
    """
    pool, settings = Pool(pool_folder(path)), collapse or CollapseSettings()
    specs = [pool.spec(identity) for identity in pool.ids()]
    kept = [pool.certificate(spec.id) for spec in specs]
    pairs = zip(specs, kept, strict=True)
    certificates = [proof for spec, proof in pairs if proof is not None and proof.holds_for(spec)]
    steps = [length for certificate in certificates for length in certificate.gold_lengths]
    diversity = diversity_of([spec.source for spec in specs], settings)
    slots = [found.outcome for found in read_slots(pool.path)]
    return PoolFigures(
        name=path.name,
        environments=len(specs),
        certified=sum(certificate.verdict is Verdict.CERTIFIED for certificate in certificates),
        skills=_counted(spec.skill.value for spec in specs),
        domains=_counted(spec.domain for spec in specs),
        designers=_counted(str(spec.provenance.get("designer", spec.provenance.get("kind", ""))) for spec in specs),
        variants=_counted(kind for spec in specs if (kind := _variant(spec))),
        gold_steps=(min(steps), median(steps), max(steps)) if steps else None,
        attempts=_attempts(slots, settings),
        tokens=_tokens(slots),
        diversity=diversity,
        grounding=grounding_of(specs),
        alarms=collapse_alarm(diversity_of([s.source for s in specs[-settings.window :]], settings), settings),
        difficulty=_difficulty([(spec.skill.value, pool.outcomes(spec.id)) for spec in specs]),
    )


def grounding_of(specs: Sequence[EnvironmentSpec]) -> Grounding:
    """Compare designs with a document and without one, the newest of either.

    As many of each, since the score falls with their number.
    """
    designed = [spec for spec in specs if spec.provenance.get("kind") == "designed"]
    grounded = [spec.source for spec in designed if spec.provenance.get("document")]
    ungrounded = [spec.source for spec in designed if not spec.provenance.get("document")]
    count = min(len(grounded), len(ungrounded), COMPARED)
    if not count:
        return Grounding()
    scores = [diversity_of(sources[-count:]).vendi for sources in (grounded, ungrounded)]
    return Grounding(compared=count, grounded=scores[0], ungrounded=scores[1])


def diversity_of(programs: Sequence[str], settings: CollapseSettings | None = None) -> Diversity:
    """The diversity of admitted programs, the newest `COMPARED` of them, oldest first."""
    sources, limits = programs[-COMPARED:], settings or CollapseSettings()
    marks, families = [fingerprint(source) for source in sources], [summarise(source) for source in sources]
    return measure(sources, marks, families, near=near_duplicates(limits.near))


def _attempts(slots: Sequence[DesignOutcome], settings: CollapseSettings) -> dict[str, Any] | None:
    if not slots:
        return None
    admitted = sum(outcome.spec is not None for outcome in slots)
    return design_figures(slots, admitted, newest_programs(slots, (), settings), settings).row()


def _tokens(slots: Sequence[DesignOutcome]) -> tuple[int, int] | None:
    used = [attempt.completion.usage for outcome in slots for attempt in outcome.attempts]
    if not used:
        return None
    return sum(each.prompt_tokens for each in used), sum(each.completion_tokens for each in used)


def _difficulty(played: Sequence[tuple[str, Sequence[OutcomeRow]]]) -> Difficulty | None:
    """By the latest rows: of a run the last time that an environment was played."""
    last = [(skill, rows[-1].win_rate) for skill, rows in played if rows]
    by_skill: dict[str, list[float]] = {}
    for skill, rate in last:
        if rate is not None:
            by_skill.setdefault(skill, []).append(rate)
    rates = [rate for found in by_skill.values() for rate in found]
    if not rates:
        return None
    known = [next((row for row in rows if row.regret is not None), None) for _, rows in played]
    counts = Counter(row.regime for row in known if row is not None)
    return Difficulty(
        environments=len(rates),
        win_rate=fmean(rates),
        learnable=sum(LEARNABLE[0] <= rate <= LEARNABLE[1] for rate in rates) / len(rates),
        by_skill={skill: fmean(found) for skill, found in sorted(by_skill.items())},
        regret=mean_return(row.regret for row in known if row is not None),
        regimes={kind.value: counts[kind.value] for kind in Regime if counts[kind.value]},
    )


def _variant(spec: EnvironmentSpec) -> str:
    return str(spec.provenance.get("variant") or spec.provenance.get("form") or "")


def _counted(names: Any) -> dict[str, int]:
    return dict(Counter(names).most_common())
