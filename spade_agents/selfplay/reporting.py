"""From a run directory to its report: reads what the run left, and writes `report.html` beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from spade_agents.errors import UsageError
from spade_agents.files import write_whole
from spade_agents.report import (
    EnvironmentEntry,
    Estimate,
    Evaluation,
    PartChange,
    ReportData,
    RolloutRow,
    render_report,
)
from spade_agents.rewards import AnchorOnly, Blend, reward_at
from spade_agents.rollout import PartSummary
from spade_agents.selfplay.pool import OutcomeRow, Pool
from spade_agents.selfplay.reported_designs import reported_alarms, reported_designs
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import (
    DesignedPool,
    FrontierPool,
    FrozenDesigner,
    OwnPool,
    RunSettings,
    StaticPool,
)
from spade_agents.selfplay.transcripts import featured
from spade_agents.statistics import bootstrap_mean, paired_difference, wilson
from spade_environments import EnvironmentSpec

__all__ = ["evaluation_of", "part_changes", "report_data", "write_report"]

_FEATURED = 5
_RESAMPLES = 1000

T = TypeVar("T")
Row = Mapping[str, Any]
Returns = Mapping[str, Sequence[float | None]]
Outcomes = Mapping[str, Sequence[OutcomeRow]]


def write_report(run: Path) -> Path:
    """Write `report.html` of a run, finished or not, and return its path.

    Raises:
        UsageError: `run` holds no run, or its pool cannot be read.
    """
    path = run / "report.html"
    write_whole(path, render_report(report_data(RunDirectory.open(run))).encode())
    return path


def report_data(directory: RunDirectory) -> ReportData:
    """What a run has to show; whatever it has not, the page says so."""
    rows = directory.metrics.rows()
    pool = Pool(directory.environments)
    ids = pool.ids() if (pool.path / "pool.json").exists() else ()
    specs = {identity: pool.spec(identity) for identity in ids}
    outcomes = {identity: pool.outcomes(identity) for identity in ids}
    entries = tuple(_entry(pool, spec, outcomes[spec.id]) for spec in specs.values())
    rollouts = _each(directory, rows, "rollout", lambda row: _rollout(row, outcomes))
    return ReportData(
        title=directory.settings.run.name,
        facts=_facts(directory, done=len(rollouts)),
        evaluations=_each(directory, rows, "evaluation", evaluation_of),
        changes=part_changes(directory),
        rollouts=rollouts,
        designs=reported_designs(rows, tuple(specs.values())),
        environments=entries,
        featured=tuple(featured(directory, pool, specs[entry.id], entry) for entry in _chosen(entries)),
        band=_band(directory.settings, done=len(rollouts)),
        alarms=reported_alarms(rows, tuple(specs.values()), directory.settings.collapse),
        configuration=(directory.path / "config.toml").read_text(encoding="utf-8"),
    )


def _each(directory: RunDirectory, rows: Sequence[Row], kind: str, read: Callable[[Row], T]) -> tuple[T, ...]:
    """The rows of a kind, read.

    Raises:
        UsageError: one that is not as this version writes it.
    """
    found = []
    for number, row in enumerate(rows, 1):
        if row.get("kind") == kind:
            try:
                found.append(read(row))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                found_there = f"{directory.metrics.path}, row {number}, is no row of kind {kind}"
                why = f"{type(error).__name__}: {error}"
                raise UsageError(f"{found_there} ({why}); the file was changed or is damaged") from error
    return tuple(found)


def _facts(directory: RunDirectory, *, done: int) -> tuple[tuple[str, str], ...]:
    settings = directory.settings
    manifest = directory.manifest
    commit = manifest.get("git_commit")
    facts = {
        "model": settings.model.start,
        "seed": str(settings.run.seed),
        "rollouts": str(done) if done >= settings.run.rollouts else f"{done} of {settings.run.rollouts}",
        "environments": _origin(settings),
        **(_of_the_designer(settings) if settings.selfplay.pool.type == "designed" else {}),
        "set": f"{settings.selfplay.environments} environments × {settings.selfplay.plays} plays",
        "sandbox": str(manifest.get("sandbox_level", "unknown")),
        "started": str(manifest.get("started", "unknown")).replace("T", " ")[:16],
        "commit": commit[:10] if isinstance(commit, str) else "",
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _origin(settings: RunSettings) -> str:
    """Where the run's environments come from: what a baseline is told apart by."""
    match settings.selfplay.pool:
        case DesignedPool():
            frozen = settings.designer.policy
            if not isinstance(frozen, FrozenDesigner):
                return "designed by the model itself"
            return f"designed by a frozen model ({frozen.target or settings.model.start})"
        case StaticPool(source=source):
            return f"fixed pool {source}"
        case FrontierPool(source=source):
            return f"fixed pool {source}, middling win rates first"
        case OwnPool(source=source):
            return f"your own, {source}"
        case _:
            return "none: supervised replay alone"


def _of_the_designer(settings: RunSettings) -> dict[str, str]:
    memory = "on" if settings.designer.memory.enabled else "none"
    return {"corpus": str(settings.designer.corpus), "memory": memory, "reward": settings.reward.type}


def _band(settings: RunSettings, *, done: int) -> tuple[float, float] | None:
    """The win rates worth most to a designer that is trained, in the newest set."""
    if settings.selfplay.pool.type != "designed" or settings.designer.policy.type != "self":
        return None
    reward = reward_at(settings.reward, max(done - 1, 0))
    return (reward.band.low, reward.band.high) if isinstance(reward, Blend | AnchorOnly) else None


def evaluation_of(row: Row) -> Evaluation:
    """The held-out estimates of a metrics row of kind `evaluation`; a part without a valid play is left out."""
    parts = {}
    for name, part in row["parts"].items():
        rate = part.get("rate", part.get("win_rate"))
        if rate is not None:
            parts[name] = Estimate(
                value=rate, low=part["low"], high=part["high"], count=part["plays"], missing=part.get("missing", 0)
            )
    return Evaluation(rollout=row["rollout"], parts=parts)


def part_changes(directory: RunDirectory) -> tuple[PartChange, ...]:
    """Every held-out part, first evaluation against last on the same plays; nothing before there are two."""
    rollouts = _each(directory, directory.metrics.rows(), "evaluation", lambda row: int(row["rollout"]))
    if len(rollouts) < 2:
        return ()
    first, last = directory.read_evaluation(rollouts[0]), directory.read_evaluation(rollouts[-1])
    return tuple(_part_change(name, first.parts[name], last.parts[name]) for name in last.parts if name in first.parts)


def _part_change(name: str, before: PartSummary, after: PartSummary) -> PartChange:
    """Plays are told by `environment:seed`, so that environments are the clusters of the interval."""
    keys = sorted(set(before.wins) | set(after.wins))
    interval = paired_difference(
        [before.wins.get(key) for key in keys],
        [after.wins.get(key) for key in keys],
        rng=random.Random(0),
        clusters=[key.partition(":")[0] for key in keys],
    )
    difference = None
    if interval is not None:
        difference = Estimate(
            value=interval.estimate, low=interval.low, high=interval.high, count=interval.n, missing=interval.missing
        )
    skills = [
        (skill, before.by_skill[skill], rate) for skill, rate in after.by_skill.items() if skill in before.by_skill
    ]
    return PartChange(name=name, difference=difference, skills=tuple(skills))


def _rollout(row: Row, outcomes: Outcomes) -> RolloutRow:
    design, regret, train = row.get("design", {}), row.get("regret", {}), row.get("train", {})
    rollout = row["rollout"]
    played = {key: found for key, all_of_it in outcomes.items() for found in all_of_it if found.rollout == rollout}
    regrets = {identity: [outcome.regret] for identity, outcome in played.items()}
    floored = {key: [None if value is None else max(value, 0.0)] for key, (value,) in regrets.items()}
    programs, recent = design.get("programs", 0), design.get("recent") or {}
    return RolloutRow(
        rollout=rollout,
        certified=_share(design.get("certified_share"), _decided(design)),
        regret_raw=_mean(regrets, regret.get("raw"), bounds=(-1.0, 1.0)),
        regret_floored=_mean(floored, regret.get("floored")),
        win_rate=_mean({key: outcome.unhinted for key, outcome in played.items()}, row["play"].get("win_rate")),
        hinted_win_rate=_mean({key: outcome.hinted for key, outcome in played.items()}, regret.get("hinted")),
        learnable=_share(row["play"].get("learnable_share"), row["play"].get("environments", 0)),
        distinct=design["distinct"] / programs if programs else None,
        vendi=recent["vendi"] if recent.get("designs") else None,
        rejected_by=design.get("gates", {}),
        regimes={name: round(share * regret["environments"]) for name, share in regret.get("regimes", {}).items()},
        outcomes={name.replace("_", " "): count for name, count in row["play"].get("outcomes", {}).items()},
        losses={name: train[key] for name, key in _LOSSES.items() if train.get(key) is not None},
        surprise=train.get("surprise"),
    )


_LOSSES = {"policy": "policy_loss", "KL to the start": "kl", "replay": "replay_loss"}


def _decided(design: Row) -> int:
    return sum(count for verdict, count in design.get("verdicts", {}).items() if verdict != "undecided")


def _share(share: float | None, count: int) -> Estimate | None:
    """A share of `count` independent attempts with its Wilson interval."""
    interval = wilson(round((share or 0.0) * count), count)
    if share is None or interval is None:
        return None
    return Estimate(value=share, low=interval.low, high=interval.high, count=count)


def _mean(returns: Returns, told: float | None, *, bounds: tuple[float, float] = (0.0, 1.0)) -> Estimate | None:
    """The mean that the run logged, with a bootstrap interval that takes environments, not plays, as its unit."""
    if told is None:
        return None
    interval = bootstrap_mean(returns, rng=random.Random(0), resamples=_RESAMPLES, bounds=bounds)
    if interval is None:
        return Estimate(value=told)
    return Estimate(value=told, low=interval.low, high=interval.high, count=interval.n, missing=interval.missing)


def _entry(pool: Pool, spec: EnvironmentSpec, outcomes: Sequence[OutcomeRow]) -> EnvironmentEntry:
    certificate = pool.certificate(spec.id)
    last = outcomes[-1] if outcomes else None
    # An environment of a fixed pool may be in several sets: win rate and regret are of the last one.
    with_regret = next((outcome for outcome in reversed(outcomes) if outcome.regret is not None), None)
    return EnvironmentEntry(
        id=spec.id,
        name=spec.name,
        skill=spec.skill.value,
        domain=spec.domain,
        # Not the spec's own: an environment of a fixed pool was designed at a rollout of another run.
        rollout=_first_played(spec, outcomes, with_regret),
        win_rate=last.win_rate if last else None,
        regret=with_regret.regret if with_regret else None,
        regime=with_regret.regime if with_regret else "",
        fault=last.fault if last else "",
        gold_steps=certificate.gold_lengths if certificate else (),
    )


def _first_played(spec: EnvironmentSpec, outcomes: Sequence[OutcomeRow], told: OutcomeRow | None) -> int:
    """The rollout whose plays are shown: where both arms were played, or the first one."""
    if told is not None:
        return told.rollout
    return outcomes[0].rollout if outcomes else int(spec.provenance.get("rollout", 0))


def _chosen(entries: Iterable[EnvironmentEntry]) -> tuple[EnvironmentEntry, ...]:
    """The highest regret first, then the lowest, then of each regime one, newest first."""
    played = [entry for entry in entries if entry.regret is not None and not entry.fault]
    by_regret = sorted(played, key=lambda entry: (-(entry.regret or 0.0), -entry.rollout))
    newest = {entry.regime: entry for entry in sorted(played, key=lambda entry: entry.rollout)}
    wanted = [*by_regret[:2], *by_regret[-1:], *newest.values()]
    return tuple({entry.id: entry for entry in wanted}.values())[:_FEATURED]
