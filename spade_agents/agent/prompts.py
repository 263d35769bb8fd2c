"""The agent's role prompts: what stands before the first completion of a play, in a game, in tool use, and hinted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from spade_agents.messages import Message
from spade_agents.policy.protocol import Policy
from spade_environments import Observation, ToolSpec

__all__ = ["PromptStyle", "opening_messages", "prompt_style"]

PromptStyle = Literal["full", "compact"]

_TOOLS: Final = (
    "You act in an environment through function calls. Read the request, call the tools you need one step at a "
    "time, and read each result before you go on. When the request is carried out, answer with a plain message; "
    "it hands the turn back to the user. If something you need is missing, ask for it. If no tool fits, say so."
)
_GAME: Final = (
    "You act in an environment, turn by turn, by calling its one function. Read each observation before you act. A "
    "plain message does nothing and costs a turn: every move is a call."
)
_GAME_ARGUMENTS: Final = ({"action"}, {"answer"})


def opening_messages(
    observation: Observation, hint: str | None = None, *, style: PromptStyle, tools: Sequence[ToolSpec] = ()
) -> tuple[Message, ...]:
    """System prompt and first observation; the hint, where given, stands once, below the observation.

    Args:
        observation: the environment's first.
        hint: of the hinted arm, which has the same system prompt as the other one.
        style: `compact` is one word, for models whose prompts are short.
        tools: of the environment, which tell a game (one function that takes the move as text) from tool use.
    """
    system = "act" if style == "compact" else _GAME if _is_game(tools) else _TOOLS
    text = observation.text if hint is None else f"{observation.text}\nhint: {hint}"
    return Message(role="system", content=system), Message(role="user", content=text)


def prompt_style(policy: Policy) -> PromptStyle:
    """The prompt style that a policy's renderer writes; `full` for a policy without a renderer."""
    style: PromptStyle = getattr(policy, "style", "full")
    return style


def _is_game(tools: Sequence[ToolSpec]) -> bool:
    """Whether these are the tools of a text environment."""
    return len(tools) == 1 and set(tools[0].parameters.get("properties", {})) in _GAME_ARGUMENTS
