"""Messages and conversations between an agent, its tools and its user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from spade_environments import Observation, ToolCall, ToolSpec

__all__ = ["Conversation", "Message"]

MessageRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; `calls` and `thinking` only for an assistant, `call_id` only for a tool's result."""

    role: MessageRole
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    thinking: str = ""

    @classmethod
    def of(cls, observation: Observation) -> Self:
        """The message that carries an observation."""
        return cls(role=observation.role, content=observation.text, call_id=observation.call_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a policy continues.

    Attributes:
        messages: from the system prompt on.
        tools: offered at the start; fixed for the episode.
        unlocked: tools announced since, in a user message.
        tokens: the exact tokens of everything up to and including the last assistant message (prompt and sampled
            tokens, never re-rendered), or `None` where nothing was sampled yet or the policy has no tokens.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tokens: tuple[int, ...] | None = None
    unlocked: tuple[ToolSpec, ...] = ()

    @property
    def known_tools(self) -> tuple[ToolSpec, ...]:
        """All tools that the agent has been told of."""
        return self.tools + self.unlocked

    def then(self, *messages: Message, tokens: tuple[int, ...] | None = None) -> Self:
        """The conversation with messages appended; `tokens` replaces the sampled prefix where given."""
        return replace(self, messages=self.messages + messages, tokens=self.tokens if tokens is None else tokens)

    def unrendered(self) -> tuple[Message, ...]:
        """The messages after the last assistant message: those that `tokens` does not cover yet."""
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].role == "assistant":
                return self.messages[index + 1 :]
        return self.messages
