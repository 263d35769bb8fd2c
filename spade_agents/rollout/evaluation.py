"""What an evaluation of a policy returns, and the Protocol by which the loop asks for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from spade_agents.policy.protocol import Policy

__all__ = ["EvalSummary", "Evaluator", "PartSummary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSummary:
    """One part of an evaluation, such as the known families.

    Attributes:
        plays: valid plays; missing ones are not among them.
        missing: plays without a return, counted beside the mean.
        win_rate: mean return of the valid plays, `None` where there are none.
        low, high: 95 % interval of `win_rate`.
        by_skill: win rate of each skill.
        wins: return of each valid play by its key (environment and seed), for paired comparison.
    """

    plays: int
    missing: int
    win_rate: float | None
    low: float | None
    high: float | None
    by_skill: Mapping[str, float] = field(default_factory=dict)
    wins: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSummary:
    """An evaluation by the names of its parts."""

    step: int
    parts: Mapping[str, PartSummary]
    info: Mapping[str, Any] = field(default_factory=dict)


class Evaluator(Protocol):
    """Evaluates a policy: the same plays for every policy that is asked about with the same seed."""

    async def __call__(self, policy: Policy, *, step: int, seed: int) -> EvalSummary: ...
