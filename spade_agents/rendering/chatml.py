"""ChatMLRenderer: a template of bare ChatML roles; tools, calls and results are written into its messages as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from spade_agents.messages import Message
from spade_agents.rendering.calls import written_text
from spade_agents.rendering.hermes import HermesRenderer
from spade_agents.rendering.tags import RESULT, RESULT_END
from spade_agents.rendering.tools import tools_block
from spade_environments import ToolSpec

__all__ = ["ChatMLRenderer"]


class ChatMLRenderer(HermesRenderer):
    """See `HermesRenderer`, whose form of tools and calls it borrows; the template itself knows of neither."""

    family: ClassVar[str] = "chatml"

    def folded(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
        """The same conversation in the roles that the template has: system, user and assistant, all of it text."""
        has_system = bool(messages) and messages[0].role == "system"
        content = messages[0].content if has_system else self.default_system
        spoken = list(messages[has_system:])
        if tools:
            gap = "\n\n" if self.style == "full" else "\n"
            content = ("" if content is None else content + gap) + "".join(tools_block(tools, self.style))
        system = [] if content is None else [Message(role="system", content=content)]
        return (*system, *_plain(spoken))


def _plain(messages: Sequence[Message]) -> list[Message]:
    plain: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "assistant":
            plain.append(Message(role="assistant", content=written_text(message)))
        elif message.role != "tool":
            plain.append(message)
        else:
            told = f"{RESULT}\n{message.content}\n{RESULT_END}"
            if index and messages[index - 1].role == "tool":
                plain[-1] = replace(plain[-1], content=f"{plain[-1].content}\n{told}")
            else:
                plain.append(Message(role="user", content=told))
    return plain
