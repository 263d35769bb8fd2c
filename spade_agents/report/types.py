"""What a report shows, as values: whoever knows a run directory fills them in, and the page is a function of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "DesignDiversity",
    "DesignEnd",
    "Designs",
    "EnvironmentEntry",
    "Estimate",
    "Evaluation",
    "Featured",
    "GateLine",
    "Line",
    "PartChange",
    "Play",
    "ReportData",
    "RolloutRow",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its 95 % interval, of `count` valid plays; `missing` plays ended in a fault and are left out."""

    value: float
    low: float | None = None
    high: float | None = None
    count: int = 0
    missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Held-out plays after so many rollouts: one estimate for each part of the held-out set."""

    rollout: int
    parts: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChange:
    """One part of the held-out set, first evaluation against last.

    Attributes:
        name: of the part.
        difference: of solve rates over the same plays, paired; `None` where there is too little to compare.
        skills: skill, solve rate before, solve rate after.
    """

    name: str
    difference: Estimate | None
    skills: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRow:
    """One rollout's figures; `None` where the run has no such figure at that rollout.

    Attributes:
        certified: share of design attempts that were certified.
        regret_raw: mean ρ over the set; regret_floored: mean of max(ρ, 0).
        win_rate, hinted_win_rate: mean returns of the two arms.
        learnable: share of environments with a win rate in [0.2, 0.8].
        distinct: share of designs with a normalised AST of their own; vendi: of the newest designs, Vendi score / n.
        rejected_by: attempts rejected, by the gate that rejected them.
        regimes: environments, by regime.
        outcomes: plays of both arms, by how they ended.
        losses: terms of the training loss, by name.
        surprise: mean −log π of the sampled tokens, an estimate of the entropy.
    """

    rollout: int
    certified: Estimate | None = None
    regret_raw: Estimate | None = None
    regret_floored: Estimate | None = None
    win_rate: Estimate | None = None
    hinted_win_rate: Estimate | None = None
    learnable: Estimate | None = None
    distinct: float | None = None
    vendi: float | None = None
    rejected_by: Mapping[str, int] = field(default_factory=dict)
    regimes: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)
    surprise: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignEnd:
    """How many attempts at a design ended at one gate, or past all of them."""

    name: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignDiversity:
    """How different some programs are; `None` where that was not measured.

    Attributes:
        name: which programs.
        programs: how many.
        vendi: Vendi score / programs.
        longest_run: near-duplicates in a row, in the order written.
        distinct: share of distinct normalised syntax trees.
        largest_family: share of the most frequent family.
    """

    name: str
    programs: int
    vendi: float
    longest_run: int | None = None
    distinct: float | None = None
    largest_family: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Designs:
    """What became of a run's designs: slots asked for, environments admitted, where every attempt ended."""

    slots: int
    admitted: int
    ends: tuple[DesignEnd, ...]
    diversity: tuple[DesignDiversity, ...] = ()

    @property
    def attempts(self) -> int:
        """All of them: each ended somewhere."""
        return sum(end.attempts for end in self.ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One gate of a certificate."""

    name: str
    status: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentEntry:
    """One environment of the pool with its outcome."""

    id: str
    name: str
    skill: str
    domain: str
    rollout: int
    win_rate: float | None
    regret: float | None
    regime: str = ""
    fault: str = ""
    gold_steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message of a transcript; `speaker` is user, hint, agent, call, tool or error."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One play to read, whole."""

    hinted: bool
    seed: int
    outcome: str
    reward: float | None
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Featured:
    """An environment shown in full: source, hint, certificate, and a play of each arm on the same seed."""

    entry: EnvironmentEntry
    source: str
    hint: str | None
    gates: tuple[GateLine, ...] = ()
    plays: tuple[Play, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """A run, as far as a person wants to see it.

    Attributes:
        title: the run's name.
        facts: short name and value pairs for the top of the page (seed, model, date, sandbox level).
        changes: what the last evaluation says beside the first, for each part.
        designs: what became of them, all rollouts together; `None` where the run designed nothing.
        band: win rates that earn the designer most at the end; `None` where the reward has no band or nobody earns it.
        alarms: sentences about what went wrong, such as a collapse of the designer.
        configuration: the resolved TOML, shown at the end.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    changes: tuple[PartChange, ...] = ()
    rollouts: tuple[RolloutRow, ...] = ()
    designs: Designs | None = None
    environments: tuple[EnvironmentEntry, ...] = ()
    featured: tuple[Featured, ...] = ()
    band: tuple[float, float] | None = None
    alarms: tuple[str, ...] = ()
    configuration: str = ""
