"""HermesRenderer: the ChatML form of Hermes, Qwen2.5 and Qwen3, calls as tagged JSON; the base of its relatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from spade_agents.messages import Message
from spade_agents.rendering.calls import Parsed, call_json, parse_pieces
from spade_agents.rendering.renderer import RenderedTranscript, Renderer, Tokenizer
from spade_agents.rendering.tags import (
    CALL,
    CALL_END,
    END,
    OPTIONAL_TAGS,
    RESULT,
    RESULT_END,
    START,
    THINK,
    THINK_END,
    Tag,
)
from spade_agents.rendering.tools import RenderStyle, tools_block
from spade_environments import ToolSpec

__all__ = ["HermesRenderer", "RenderedTranscript", "Tokenizer"]


class HermesRenderer(Renderer):
    """See `Renderer`.

    Args:
        tokenizer: holds `<|im_start|>` and `<|im_end|>`; `<tool_call>`, `<tool_response>`, `<think>` and their ends are
            used by id where it has them, else written as text.
        style: `full` is Qwen3's own text; `compact` leaves out the prose around the tools.
        default_system: what the template says where a conversation begins without a system prompt; `None` for nothing.
    """

    family: ClassVar[str] = "hermes"
    structural: ClassVar[tuple[Tag, ...]] = (START, END)
    optional: ClassVar[tuple[Tag, ...]] = OPTIONAL_TAGS
    end: ClassVar[Tag] = END
    gap: ClassVar[str] = "\n"

    def __init__(self, tokenizer: Tokenizer, *, style: RenderStyle = "full", default_system: str | None = None) -> None:
        super().__init__(tokenizer, style=style)
        self.default_system = default_system

    @property
    def call_end_id(self) -> int | None:
        """The token `</tool_call>`, or `None` where the tokenizer spells it."""
        return self._ids.get(CALL_END)

    def _opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[list[str], int]:
        has_system = bool(messages) and messages[0].role == "system"
        content = messages[0].content if has_system else self.default_system
        return self._system(content, tools), int(has_system)

    def _system(self, content: str | None, tools: Sequence[ToolSpec]) -> list[str]:
        """The pieces of the system message, which also shows the tools; none where there is neither."""
        if not tools:
            return [] if content is None else [START, f"system\n{content}", END, "\n"]
        gap = "\n\n" if self.style == "full" else "\n"
        before = "" if content is None else content + gap
        return [START, f"system\n{before}", *tools_block(tools, self.style), END, "\n"]

    def _heard(self, messages: Sequence[Message]) -> list[str]:
        """Neighbouring results share one user turn, as in Qwen3."""
        pieces: list[str] = []
        for index, message in enumerate(messages):
            content = self._shown(message.content)
            if message.role != "tool":
                pieces += [START, f"{message.role}\n{content}", END, "\n"]
                continue
            if index == 0 or messages[index - 1].role != "tool":
                pieces += [START, "user"]
            pieces += ["\n", RESULT, f"\n{content}\n", RESULT_END]
            if index + 1 == len(messages) or messages[index + 1].role != "tool":
                pieces += [END, "\n"]
        return pieces

    def _shown(self, content: str) -> str:
        """The content of a message as the template writes it."""
        return content

    def _header(self, *, forgotten: bool = False) -> list[str]:
        return [START, "assistant\n"]

    def _written(self, message: Message, *, forgotten: bool = False) -> list[str]:
        thought = [] if forgotten or not message.thinking else [THINK, f"\n{message.thinking}\n", THINK_END, "\n\n"]
        return thought + self._said(message)

    def _said(self, message: Message) -> list[str]:
        """The pieces of its text, then one tagged line a call."""
        content = self._shown(message.content)
        pieces: list[str] = [content] if content else []
        for call in message.calls:
            pieces += ["\n"] if pieces else []
            pieces += [CALL, f"\n{call_json(call)}\n", CALL_END]
        return pieces

    def _read(self, pieces: Iterable[str], *, truncated: bool, tools: Sequence[ToolSpec]) -> Parsed:
        return parse_pieces(pieces, truncated=truncated)
