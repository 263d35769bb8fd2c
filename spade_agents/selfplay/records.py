"""What a rollout leaves on disk: its row of metrics, the outcomes of its environments, and one line for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from spade_agents.rewards import Regret, mean_return, regime, regime_shares
from spade_agents.rollout import EvalSummary, PartSummary
from spade_agents.selfplay.design_figures import DesignFigures
from spade_agents.selfplay.pool import OutcomeRow
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import Played, SetMember
from spade_agents.selfplay.update_phase import Trained
from spade_agents.trajectory import Trajectory
from spade_environments.wording import counted

__all__ = ["AHEAD", "evaluation_row", "flush_row", "record_outcomes", "rollout_row", "told"]

Row = dict[str, Any]

AHEAD: Final = " ahead"
"""Ends the names of phases that went on during an update."""


def rollout_row(resources: Resources, rollout: int, figures: DesignFigures, played: Played, trained: Trained) -> Row:
    """The row of one rollout; `design` only where a set was designed, `regret` only where both arms were played."""
    row: Row = {"kind": "rollout", "rollout": rollout, "step": trained.metrics.step, "play": _play(played)}
    if figures.slots:
        row["design"] = figures.row()
    if played.hinted:
        row["regret"] = _regret(played, resources.settings)
    row["train"] = _train(trained)
    if resources.settings.selfplay.asynchronous:
        row["train"]["behind"] = trained.behind
    if lost := resources.take_losses():
        row["lost"] = dict(lost)
    return {**row, "seconds": resources.take_seconds()}


def flush_row(rollout: int, trained: Trained) -> Row:
    """The row of the last update, on the designs that were still waiting."""
    return {"kind": "flush", "rollout": rollout, "step": trained.metrics.step, "train": _train(trained)}


def evaluation_row(resources: Resources, rollout: int, summary: EvalSummary) -> Row:
    """The row of an evaluation after `rollout` rollouts."""
    parts = {name: _part(part) for name, part in summary.parts.items()}
    return {"kind": "evaluation", "rollout": rollout, "parts": parts, "seconds": resources.take_seconds()}


def record_outcomes(resources: Resources, rollout: int, played: Played) -> None:
    """One line in the pool for each environment that was played."""
    groups = {group.environment_id: group for group in played.unhinted}
    for member in played.current.members:
        if member.spec.id in groups:
            row = _outcome(member, rollout, played.current.rollout == rollout, resources.settings)
            resources.pool.record(member.spec.id, row)


def told(row: Mapping[str, Any]) -> str:
    """One line about a row, for a person who watches, and one more for each alarm."""
    if row["kind"] == "evaluation":
        rates = (_told_part(name, part) for name, part in row["parts"].items())
        return f"held-out after {row['rollout']} rollouts: " + ", ".join(rates)
    parts = [f"rollout {row['rollout']}"]
    if "design" in row:
        design = row["design"]
        parts.append(f"admitted {design['admitted']}/{design['slots']} in {design['attempts']} attempts")
    if row["play"]["win_rate"] is not None:
        parts.append(f"win rate {row['play']['win_rate']:.2f}")
    if "regret" in row and row["regret"]["raw"] is not None:
        parts.append(f"regret {row['regret']['raw']:+.3f}")
    parts += [f"{counted(number, kind)} lost" for kind, number in row.get("lost", {}).items()]
    parts.append(f"{row['train']['agent']}+{row['train']['designer']}+{row['train']['replay']} samples")
    line = ", ".join(parts) + f" ({_wall(row['seconds']):.1f} s)"
    return "\n".join([line, *(f"Alarm: {alarm}" for alarm in row.get("design", {}).get("alarms", ()))])


def _wall(seconds: Mapping[str, float]) -> float:
    """What phases took, one after another; those of a rollout sampled ahead went on beside an update."""
    return sum(taken for phase, taken in seconds.items() if not phase.endswith(AHEAD))


def _told_part(name: str, part: Mapping[str, Any]) -> str:
    if part["win_rate"] is None:
        return f"{name} undecided (no valid play)"
    interval = " [not estimable]" if part["low"] is None else f" [{part['low']:.3f}, {part['high']:.3f}]"
    return f"{name} {part['win_rate']:.3f}{interval}"


def _play(played: Played) -> Row:
    plays = [play for group in played.unhinted for play in group.trajectories]
    rates = [rate for group in played.unhinted if (rate := mean_return(group.returns)) is not None]
    tokens = [turn.completion.usage.completion_tokens for play in plays for turn in play.turns]
    return {
        "environments": len(played.unhinted),
        "plays": len(plays),
        "win_rate": fmean(rates) if rates else None,
        "learnable_share": sum(0.2 <= rate <= 0.8 for rate in rates) / len(rates) if rates else None,
        "outcomes": _counted(play.outcome.value for play in played.trajectories),
        "errors": _summed(plays),
        "turns": fmean(len(play.turns) for play in plays) if plays else None,
        "tokens": sum(tokens),
        "retired": sum(1 for member in played.current.members if member.fault),
    }


def _regret(played: Played, settings: RunSettings) -> Row:
    arms = [arm for member in played.current.members if (arm := member.arms) is not None]
    regimes = [regime(arm, settings.selfplay.regimes) for arm in arms]
    return {
        "raw": fmean(arm.raw for arm in arms) if arms else None,
        "floored": fmean(arm.floored for arm in arms) if arms else None,
        "hinted": fmean(arm.hinted for arm in arms) if arms else None,
        "unhinted": fmean(arm.unhinted for arm in arms) if arms else None,
        "environments": len(arms),
        "regimes": {kind.value: share for kind, share in regime_shares(regimes).items()},
    }


def _train(trained: Trained) -> Row:
    raw = [value for value in trained.raw if value is not None]
    return {
        "agent": len(trained.agent),
        "designer": len(trained.designer),
        "replay": trained.replay,
        "designer_reward": fmean(raw) if raw else None,
        "designer_weight": trained.weight,
        "trimmed": trained.trimmed,
        **{name: value for name, value in trained.metrics.as_dict().items() if name not in ("step", "seconds")},
    }


def _outcome(member: SetMember, rollout: int, is_regeneration: bool, settings: RunSettings) -> OutcomeRow:
    arms: Regret | None = member.arms if is_regeneration else None
    return OutcomeRow(
        rollout=rollout,
        unhinted=member.window[-settings.selfplay.plays :],
        hinted=member.hinted if is_regeneration else (),
        win_rate=member.win_rate,
        regret=arms.raw if arms else None,
        regime=regime(arms, settings.selfplay.regimes).value if arms else "",
        fault=member.fault,
    )


def _part(part: PartSummary) -> Row:
    """All of a part but its single plays, which are kept in a file of their own."""
    return {
        "win_rate": part.win_rate,
        "low": part.low,
        "high": part.high,
        "plays": part.plays,
        "missing": part.missing,
        "by_skill": dict(part.by_skill),
    }


def _counted(values: Any) -> dict[str, int]:
    return dict(Counter(values))


def _summed(plays: Sequence[Trajectory]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for play in plays:
        total.update(play.counters)
    return dict(total)
