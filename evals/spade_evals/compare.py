"""Two logs side by side: are they comparable, how large is the difference, and what could these pairs have shown."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from statistics import NormalDist, fmean
from typing import NamedTuple, Self

from spade_agents.power import drop_p_value, drop_power, pairs_needed, share_upper_bound, smallest_visible_drop
from spade_agents.statistics import Interval, paired_difference
from spade_evals.log import EvalLog, Samples
from spade_evals.summary import by_reason, some
from spade_evals.types import ColumnSettings, LogHeader, Sample, SampleKey, SampleOutcome

__all__ = [
    "ColumnChange",
    "Comparison",
    "Flip",
    "GateSettings",
    "Loaded",
    "Paired",
    "Verdict",
    "compare_logs",
    "load_log",
]

_FLIPS_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """What the gate lets pass, and what it must be able to see.

    Attributes:
        max_drop: fall of the mean that is no regression.
        alpha: level of the one-sided test.
        visible_drop: true fall that must be seen with `power`, or nothing is decided.
    """

    max_drop: float = 0.0
    alpha: float = 0.05
    visible_drop: float = 0.05
    power: float = 0.8


class Verdict(NamedTuple):
    """The gate's answer: an exit code (0 pass, 1 regression, 3 not decidable) and why."""

    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A sample whose score changed."""

    id: str
    epoch: int
    column: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """One column of both logs, over the pairs that have a score on both sides."""

    pairs: int
    before: float
    after: float
    lost: int
    gained: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What the gate decides from.

    Attributes:
        pairs: compared.
        drop: of the mean, base minus candidate.
        lost, gained: pairs whose score fell, rose.
        p_value: one-sided, of no drop; `test` names how: exact McNemar, or sign flips where there are scores between 0
            and 1.
        discordance: upper 95 % bound of the share of changed pairs; never 0.
    """

    pairs: int
    drop: float
    lost: int
    gained: int
    p_value: float
    test: str
    discordance: float

    @classmethod
    def of_counts(cls, pairs: int, lost: int, gained: int) -> Self:
        """Pairs of right and wrong answers."""
        return cls(
            pairs=pairs,
            drop=(lost - gained) / pairs if pairs else 0.0,
            lost=lost,
            gained=gained,
            p_value=drop_p_value(lost, gained),
            test="exact McNemar",
            discordance=share_upper_bound(lost + gained, pairs) if pairs else 1.0,
        )

    def verdict(self, gate: GateSettings) -> Verdict:
        """1 where a drop is seen; else 3 where one could have been missed; else 0."""
        if not self.pairs:
            return Verdict(3, "not decidable: no pair has a score on both sides")
        found = (
            f"drop {self.drop:+.4f} over {self.pairs} pairs ({self.lost} lost, {self.gained} gained), "
            f"p = {self.p_value:.4f}"
        )
        if self.drop > gate.max_drop + 1e-12 and self.p_value < gate.alpha:
            return Verdict(1, f"regression: {found}; at most {gate.max_drop:g} is let pass")
        power = self.power(gate)
        if power < gate.power:
            return Verdict(3, f"not decidable: {found}; {self._lack(gate, power)}")
        return Verdict(
            0, f"no regression: {found}; a drop of {gate.visible_drop:g} would be seen {power:.0%} of the time"
        )

    def power(self, gate: GateSettings) -> float:
        """Chance that the gate's whole rule calls a true drop of `gate.visible_drop`."""
        if not self.pairs:
            return 0.0
        return drop_power(
            self.pairs, self.discordance, drop=gate.visible_drop, max_drop=gate.max_drop, alpha=gate.alpha
        )

    def _lack(self, gate: GateSettings, power: float) -> str:
        seen = (
            f"a true drop of {gate.visible_drop:g} would be seen only {power:.0%} of the time "
            f"(changed pairs taken at {self.discordance:.3f}, their upper bound)"
        )
        needed = pairs_needed(
            self.discordance, drop=gate.visible_drop, max_drop=gate.max_drop, alpha=gate.alpha, power=gate.power
        )
        if needed is None:
            return f"{seen}, and no number of pairs helps while a drop of {gate.max_drop:g} is let pass"
        return f"{seen}; {gate.power:.0%} needs about {needed} pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two logs say together.

    Attributes:
        obstacles: why the two may not be compared; where there is one, the figures are for reading only.
        paired: the samples with a score in both; `left_out` have none in either (unscorable in both).
        before, after: means over the pairs; `difference` is after minus before, 95 %, tasks as clusters.
        smallest: the smallest true drop that these pairs show with the gate's power.
        note: what else may stand behind a difference; empty where nothing is known to.
    """

    suite: str
    obstacles: tuple[str, ...]
    paired: Paired
    left_out: int
    before: float | None
    after: float | None
    difference: Interval | None
    smallest: float | None
    columns: Mapping[str, ColumnChange] = field(default_factory=dict)
    flips: tuple[Flip, ...] = ()
    note: str = ""

    def verdict(self, gate: GateSettings) -> Verdict:
        """Rule by rule: comparable at all, then a drop that is seen, then whether one would have been seen."""
        if self.obstacles:
            return Verdict(3, f"not comparable: {'; '.join(self.obstacles)}")
        return self.paired.verdict(gate)


class Loaded(NamedTuple):
    """A log, read."""

    header: LogHeader
    samples: Samples


def load_log(log: EvalLog) -> Loaded:
    """Header and samples of a log."""
    return Loaded(log.header(), log.samples())


def compare_logs(
    base: Loaded, candidate: Loaded, *, gate: GateSettings | None = None, columns: Sequence[str] | None = None
) -> Comparison:
    """Pair two logs by sample id and epoch.

    Args:
        base: what was.
        candidate: what is asked about.
        gate: decides power and test.
        columns: only these.
    """
    rules = gate or GateSettings()
    ours, theirs = _only(base.samples.latest, columns), _only(candidate.samples.latest, columns)
    obstacles = tuple(_obstacles(base, candidate, ours, theirs, columns))
    keys = [key for key in ours if key in theirs]
    pairs = [(ours[key], theirs[key]) for key in keys if _both_scored(ours[key], theirs[key])]
    old, new = [_score(a) for a, _ in pairs], [_score(b) for _, b in pairs]
    paired = _paired(old, new)
    tasks = [a.id for a, _ in pairs]
    return Comparison(
        suite=candidate.header.suite,
        obstacles=obstacles,
        paired=paired,
        left_out=len(keys) - len(pairs),
        before=fmean(old) if old else None,
        after=fmean(new) if new else None,
        difference=paired_difference(old, new, rng=random.Random(0), clusters=tasks, resamples=1000),
        smallest=_smallest(paired, rules),
        columns=_by_column(pairs),
        flips=tuple(_flips(pairs))[:_FLIPS_KEPT],
        note=_backend_note(base.header, candidate.header),
    )


def _only(samples: Mapping[SampleKey, Sample], columns: Sequence[str] | None) -> dict[SampleKey, Sample]:
    return {key: one for key, one in samples.items() if columns is None or one.column in columns}


def _obstacles(
    base: Loaded,
    candidate: Loaded,
    ours: Mapping[SampleKey, Sample],
    theirs: Mapping[SampleKey, Sample],
    columns: Sequence[str] | None,
) -> Iterable[str]:
    """Why the two may not be compared, the graver first."""
    old, new = base.header, candidate.header
    for name in ("suite", "grading", "protocol", "seed"):
        if getattr(old, name) != getattr(new, name):
            yield f"{_WORDS[name]} differ: {getattr(old, name)} and {getattr(new, name)}"
    users = [header.user_model and replace(header.user_model, backend="") for header in (old, new)]
    if users[0] != users[1]:
        yield f"user models differ: {users[0]} and {users[1]}"
    for name in sorted({*old.data, *new.data}):
        if old.data.get(name) != new.data.get(name):
            yield f"data checksums of {name} differ: {_short(old.data.get(name))} and {_short(new.data.get(name))}"
            break
    for name in sorted({*old.columns, *new.columns}):
        if (columns is None or name in columns) and old.columns.get(name) != new.columns.get(name):
            yield _settings_told(name, old.columns.get(name), new.columns.get(name))
    yield from _version_obstacles(old, new)
    for side, log in (("base", base), ("candidate", candidate)):
        yield from _own_obstacles(side, log, ours if side == "base" else theirs, columns)
    alone = [*sorted(set(ours) - set(theirs)), *sorted(set(theirs) - set(ours))]
    if alone:
        yield f"{len(alone)} samples are in one log only, such as {alone[0][0]!r} epoch {alone[0][1]}"
    torn = [key for key in ours if key in theirs and ours[key].outcome != theirs[key].outcome]
    if torn:
        yield f"{len(torn)} samples are scored in one log only, such as {torn[0][0]!r} epoch {torn[0][1]}"


_WORDS = {"grading": "grading versions", "suite": "suites", "protocol": "protocols", "seed": "seeds"}


def _backend_note(old: LogHeader, new: LogHeader) -> str:
    """Number formats and kernels change a sample here and there, which is no doing of the weights."""
    backends = old.model.backend, new.model.backend
    if "" in backends or backends[0] == backends[1]:
        return ""
    return f"the base was run by {backends[0]}, the candidate by {backends[1]}, which changes samples by itself"


def _settings_told(column: str, ours: ColumnSettings | None, theirs: ColumnSettings | None) -> str:
    """Which settings of a column differ, each with both values."""
    if ours is None or theirs is None:
        return f"the column {column} is in the {'candidate' if ours is None else 'base'} only"
    old, new = ({"n": side.n, **asdict(side.sampling)} for side in (ours, theirs))
    return f"settings of {column} differ: " + ", ".join(
        f"{name.replace('_', ' ')} {old[name]} and {new[name]}" for name in old if old[name] != new[name]
    )


def _version_obstacles(old: LogHeader, new: LogHeader) -> Iterable[str]:
    """Packages that decide a score; our own is left out, since `grading` stands for it."""
    for name in sorted({*old.versions, *new.versions} - {"spade-agents"}):
        if old.versions.get(name) != new.versions.get(name):
            yield f"versions of {name} differ: {old.versions.get(name)} and {new.versions.get(name)}"


def _own_obstacles(
    side: str, log: Loaded, samples: Mapping[SampleKey, Sample], columns: Sequence[str] | None
) -> Iterable[str]:
    header = log.header
    if log.samples.doubled:
        yield f"the {side} has {len(log.samples.doubled)} doubled ids, such as {log.samples.doubled[0][0]!r}"
    failed = sum(one.outcome is SampleOutcome.INFRASTRUCTURE_ERROR for one in samples.values())
    if failed:
        yield f"the {side} has {failed} infrastructure errors; finish it with --resume"
    chosen = [name for name in header.asked if columns is None or name in columns]
    asked = sum(header.asked[name] * header.columns[name].n for name in chosen)
    if asked != len(samples):
        yield f"the {side} holds {len(samples)} of the {asked} samples that it asked for; finish it with --resume"
    left = {name: why for name, why in header.not_run.items() if columns is None or name in columns}
    for why, names in by_reason(left).items():
        yield f"the {side} did not run {some(names)}: {why}"
    for name, count in header.trained_on.items():
        if columns is None or name in columns:
            yield f"the model of the {side} was trained on {count} tasks of {name}"


def _both_scored(a: Sample, b: Sample) -> bool:
    return a.score is not None and b.score is not None


def _score(sample: Sample) -> float:
    return sample.score or 0.0


def _paired(old: Sequence[float], new: Sequence[float]) -> Paired:
    """The question is whether this model does worse on these tasks, so pairs are the unit, repetitions included."""
    differences = [b - a for a, b in zip(old, new, strict=True)]
    counts = Paired.of_counts(len(old), sum(d < 0 for d in differences), sum(d > 0 for d in differences))
    if {*old, *new} <= {0.0, 1.0}:
        return counts
    # A mean of n differences with mean square v is as uncertain as one over n pairs of which a share v changes.
    square = sum(value**2 for value in differences) / len(differences)
    widened = max(square * len(differences) / _chi_square_low(len(differences)), square * counts.discordance)
    return replace(
        counts,
        drop=-fmean(differences),
        p_value=_sign_flip_p(differences),
        test="sign flips",
        discordance=min(widened, counts.discordance),
    )


def _chi_square_low(freedom: int) -> float:
    """The 5 % quantile of chi-square by Wilson and Hilferty: a variance is at most v * k over it, 95 % of the time."""
    z = NormalDist().inv_cdf(0.05)
    return max(freedom * (1 - 2 / (9 * freedom) + z * sqrt(2 / (9 * freedom))) ** 3, 1e-9)


def _sign_flip_p(differences: Sequence[float], flips: int = 4000) -> float:
    """Share of sign patterns whose sum is at most the one seen; exact for up to 12 that are not 0."""
    moved = [difference for difference in differences if difference]
    seen = sum(moved) + 1e-9
    if len(moved) <= 12:
        sums = [0.0]
        for difference in moved:
            sums = [total + sign * difference for total in sums for sign in (1, -1)]
        return sum(total <= seen for total in sums) / len(sums)
    rng = random.Random(0)
    below = 0
    for _ in range(flips):
        bits = rng.getrandbits(len(moved))
        total = sum(value if bits >> place & 1 else -value for place, value in enumerate(moved))
        below += total <= seen
    return (below + 1) / (flips + 1)


def _smallest(paired: Paired, gate: GateSettings) -> float | None:
    if not paired.pairs:
        return None
    return smallest_visible_drop(
        paired.pairs, paired.discordance, max_drop=gate.max_drop, alpha=gate.alpha, power=gate.power
    )


def _by_column(pairs: Sequence[tuple[Sample, Sample]]) -> dict[str, ColumnChange]:
    found: dict[str, list[tuple[float, float]]] = {}
    for a, b in pairs:
        found.setdefault(a.column, []).append((_score(a), _score(b)))
    return {
        name: ColumnChange(
            pairs=len(scores),
            before=fmean(a for a, _ in scores),
            after=fmean(b for _, b in scores),
            lost=sum(b < a for a, b in scores),
            gained=sum(b > a for a, b in scores),
        )
        for name, scores in found.items()
    }


def _flips(pairs: Sequence[tuple[Sample, Sample]]) -> Iterable[Flip]:
    """Changed pairs, losses first."""
    changed = [(a, b) for a, b in pairs if _score(a) != _score(b)]
    for a, b in sorted(changed, key=lambda pair: (_score(pair[1]) - _score(pair[0]), pair[0].id, pair[0].epoch)):
        yield Flip(id=a.id, epoch=a.epoch, column=a.column, before=_score(a), after=_score(b))


def _short(digest: str | None) -> str:
    return "none" if digest is None else digest[:12]
