"""The agent's role prompts: what stands before the first completion of a play."""

from __future__ import annotations

from typing import Literal

from spade_agents.messages import Message
from spade_environments import Observation

__all__ = ["PromptStyle", "opening_messages"]

PromptStyle = Literal["full", "compact"]

_SYSTEM: dict[PromptStyle, str] = {
    "full": (
        "You act in an environment through function calls. Read the request, call the tools you need one step at a "
        "time, and read each result before you go on. When the request is carried out, answer with a plain message; "
        "it hands the turn back to the user. If something you need is missing, ask for it. If no tool fits, say so."
    ),
    "compact": "act",
}


def opening_messages(observation: Observation, hint: str | None = None, *, style: PromptStyle) -> tuple[Message, ...]:
    """System prompt and first observation; the hint, where given, stands once, below the observation."""
    text = observation.text if hint is None else f"{observation.text}\nhint: {hint}"
    return Message(role="system", content=_SYSTEM[style]), Message(role="user", content=text)
