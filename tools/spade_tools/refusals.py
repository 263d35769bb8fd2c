"""What an agent reads in place of a result: a malformed action, or one after the end."""

from __future__ import annotations

from dataclasses import replace

from spade_environments import Action, Observation, StepResult, ToolCall
from spade_environments.validation import CallError

__all__ = ["malformed_result", "over_result"]


def malformed_result(action: Action, error: CallError) -> StepResult:
    """The answer to an action that the argument validator refused; nothing has happened in the environment."""
    return StepResult(
        observation=_told(action, f"Error: {error.text}."),
        reward=0.0,
        terminated=False,
        truncated=False,
        info={"error": error.kind.value},
    )


def over_result(action: Action, last: StepResult) -> StepResult:
    """The answer to an action after the end: an error that repeats the last reward."""
    return replace(last, observation=_told(action, "Error: episode over."), info={"error": "episode_over"})


def _told(action: Action, text: str) -> Observation:
    if isinstance(action, ToolCall):
        return Observation(role="tool", text=text, call_id=action.id)
    return Observation(role="user", text=text)
