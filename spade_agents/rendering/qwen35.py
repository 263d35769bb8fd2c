"""Qwen35Renderer: the thinking form of Qwen3.5, whose calls are XML and whose tools stand before the system prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

from spade_agents.messages import Message
from spade_agents.rendering.calls import Parsed, parse_pieces
from spade_agents.rendering.renderer import Prefill, Tokenizer
from spade_agents.rendering.tags import CALL, CALL_END, END, START
from spade_agents.rendering.thinking import Qwen3ThinkingRenderer
from spade_agents.rendering.tools import RenderStyle, tool_lines
from spade_agents.rendering.xml_calls import ScalarForm, parse_xml_call, xml_call
from spade_environments import ToolSpec

__all__ = ["Qwen35Renderer"]

_AFTER: Final = (
    "\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n",
    CALL,
    "\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
    "</parameter>\n</function>\n",
    CALL_END,
    "\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner <function=...></function> "
    "block must be nested within ",
    CALL,
    CALL_END,
    " XML tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for your function call "
    "in natural language BEFORE the function call, but NOT after\n- If there is no function call available, answer the "
    "question like normal with your current knowledge and do not tell the user about function calls\n</IMPORTANT>",
)


class Qwen35Renderer(Qwen3ThinkingRenderer):
    """See `Qwen3ThinkingRenderer`.

    Args:
        tokenizer, style, default_system, prefill: see `Qwen3ThinkingRenderer`.
        scalars: how numbers and truth values are written.
    """

    family: ClassVar[str] = "qwen3_5"
    drops_empty_thoughts: ClassVar[bool] = False

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        style: RenderStyle = "full",
        default_system: str | None = None,
        prefill: Prefill = "open",
        scalars: ScalarForm = "python",
    ) -> None:
        super().__init__(tokenizer, style=style, default_system=default_system, prefill=prefill)
        self.scalars: ScalarForm = scalars

    def _system(self, content: str | None, tools: Sequence[ToolSpec]) -> list[str]:
        told = None if content is None else self._shown(content)
        if not tools:
            return super()._system(told, ())
        before = "# Tools\n\nYou have access to the following functions:\n\n" if self.style == "full" else ""
        after = _AFTER if self.style == "full" else ()
        gap = "\n\n" if self.style == "full" else "\n"
        told = f"{gap}{told}" if told else ""
        return [START, f"system\n{before}{tool_lines(tools, self.style)}", *after, told, END, "\n"]

    def _shown(self, content: str) -> str:
        return content.strip()

    def _said(self, message: Message) -> list[str]:
        content = self._shown(message.content)
        pieces: list[str] = [content] if content else []
        for index, call in enumerate(message.calls):
            pieces += ["\n" if index else "\n\n"] if pieces else []
            pieces += [CALL, f"\n{xml_call(call, self.scalars)}\n", CALL_END]
        return pieces

    def _read(self, pieces: Iterable[str], *, truncated: bool, tools: Sequence[ToolSpec]) -> Parsed:
        read = partial(parse_xml_call, tools=tools)
        return parse_pieces(pieces, truncated=truncated, is_thinking=self.prefill == "open", read=read)
