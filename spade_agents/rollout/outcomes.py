"""What became of a tool call: one closed set, whatever the template or the environment's validator says in detail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from spade_agents.rollout.rollout import EPISODE_OVER
from spade_agents.trajectory import Trajectory
from spade_environments.validation import CallErrorKind

__all__ = ["CallOutcome", "call_outcomes", "outcome_of"]


class CallOutcome(StrEnum):
    """How a call ended; all but `ok` are tool errors that the agent reads."""

    OK = "ok"
    NOT_JSON = "not_json"
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"
    DOUBLE_ENCODED = "double_encoded"
    TRUNCATED = "truncated"
    SEVERAL_CALLS = "several_calls"


_OUTCOMES: Final[Mapping[str, CallOutcome]] = {
    **dict.fromkeys(CallErrorKind, CallOutcome.BAD_ARGUMENTS),
    **{outcome: outcome for outcome in CallOutcome if outcome is not CallOutcome.OK},
    "bad_call": CallOutcome.BAD_ARGUMENTS,
}


def outcome_of(kind: str) -> CallOutcome | None:
    """The outcome that a counter of a trajectory belongs to; `None` where it counts something else than calls."""
    return _OUTCOMES.get(kind)


def call_outcomes(trajectories: Iterable[Trajectory]) -> Counter[CallOutcome]:
    """All calls of some plays by outcome; a reply cut by length is no call, and one after the end is not counted."""
    total: Counter[CallOutcome] = Counter()
    for trajectory in trajectories:
        for turn in trajectory.turns:
            failed = [outcome for kind in turn.errors if (outcome := outcome_of(kind)) is not None]
            answered = [seen for seen in turn.observations if seen.role == "tool" and seen.text != EPISODE_OVER]
            total.update(failed)
            total[CallOutcome.OK] += len(answered) - len(failed)
    return +total
