"""Qwen3ThinkingRenderer: the Hermes form with a thought before each message, kept where the template would drop it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from spade_agents.messages import Message
from spade_agents.rendering.calls import Parsed, parse_pieces
from spade_agents.rendering.hermes import HermesRenderer
from spade_agents.rendering.renderer import Prefill, Tokenizer
from spade_agents.rendering.tags import END, OPTIONAL_TAGS, START, THINK, THINK_END, Tag
from spade_agents.rendering.tools import RenderStyle
from spade_environments import ToolSpec

__all__ = ["Qwen3ThinkingRenderer"]


class Qwen3ThinkingRenderer(HermesRenderer):
    """See `HermesRenderer`; every assistant message begins with a thought, an empty one where it has none.

    Qwen's templates leave out the thoughts before the last user message, and empty ones but the last. Tokens that were
    sampled are never taken back here: that is the deviation `Deviation.THOUGHTS_KEPT`, in training as in serving.

    Args:
        tokenizer, style, default_system: see `HermesRenderer`.
        prefill: what the template's assistant header already holds of the thought.
    """

    family: ClassVar[str] = "qwen3_thinking"
    thinks: ClassVar[bool] = True
    structural: ClassVar[tuple[Tag, ...]] = (START, END, THINK, THINK_END)
    optional: ClassVar[tuple[Tag, ...]] = OPTIONAL_TAGS
    drops_empty_thoughts: ClassVar[bool] = True
    """Whether the template leaves out empty thoughts wherever they stand, but at the end."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        style: RenderStyle = "full",
        default_system: str | None = None,
        prefill: Prefill = "none",
    ) -> None:
        super().__init__(tokenizer, style=style, default_system=default_system)
        self.prefill: Prefill = prefill

    def _header(self, *, forgotten: bool = False) -> list[str]:
        header = super()._header()
        if forgotten or self.prefill == "none":
            return header
        return [*header, THINK, "\n"] if self.prefill == "open" else [*header, THINK, "\n\n", THINK_END, "\n\n"]

    def _written(self, message: Message, *, forgotten: bool = False) -> list[str]:
        said = self._said(message)
        if forgotten or (self.prefill == "closed" and not message.thinking):
            return said
        opened = [] if self.prefill == "open" else [THINK, "\n"]
        return [*opened, f"{message.thinking}\n", THINK_END, "\n\n", *said]

    def _read(self, pieces: Iterable[str], *, truncated: bool, tools: Sequence[ToolSpec]) -> Parsed:
        return parse_pieces(pieces, truncated=truncated, is_thinking=self.prefill == "open")

    def forgotten_thoughts(self, messages: Sequence[Message]) -> frozenset[int]:
        """Where Qwen's templates leave a thought out: before the last user message, and empty ones but the last."""
        users = [index for index, message in enumerate(messages) if message.role == "user"]
        last_user = users[-1] if users else len(messages)
        return frozenset(
            index
            for index, message in enumerate(messages)
            if message.role == "assistant" and (index < last_user or self._drops_empty(message, index, len(messages)))
        )

    def _drops_empty(self, message: Message, index: int, count: int) -> bool:
        return self.drops_empty_thoughts and not message.thinking and index + 1 < count
