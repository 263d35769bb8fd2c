"""Llama3Renderer: the headers of Llama 3.1 and 3.2; a call is a message that is one JSON object, and stands alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from spade_agents.errors import PolicyError
from spade_agents.messages import Message
from spade_agents.rendering.calls import Parsed, broken_call, parse_call
from spade_agents.rendering.renderer import Renderer
from spade_agents.rendering.tags import Tag
from spade_agents.rendering.tools import function_schema, to_json, tool_lines
from spade_agents.trajectory import BrokenCall
from spade_environments import ToolSpec

__all__ = ["LLAMA3_DATE", "Llama3Renderer"]

LLAMA3_DATE: Final = "26 Jul 2024"
"""The day that the prompt names, the template's own default: today's would make prompts differ from day to day."""

_BEGIN: Final = Tag("<|begin_of_text|>")
_HEAD: Final = Tag("<|start_header_id|>")
_HEAD_END: Final = Tag("<|end_header_id|>")
_END: Final = Tag("<|eot_id|>")
_PYTHON: Final = Tag("<|python_tag|>")
_ASKED: Final = (
    "Given the following functions, please respond with a JSON for a function call with its proper arguments that best "
    'answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of argument '
    "name and its value}.Do not use variables.\n\n"
)


class Llama3Renderer(Renderer):
    """See `Renderer`; a message holds one call and no text beside it, or text alone.

    Tool results are written as JSON strings, as the template does it.
    """

    family: ClassVar[str] = "llama3"
    parallel_calls: ClassVar[bool] = False
    structural: ClassVar[tuple[Tag, ...]] = (_BEGIN, _HEAD, _HEAD_END, _END)
    optional: ClassVar[tuple[Tag, ...]] = (_PYTHON,)
    end: ClassVar[Tag] = _END
    gap: ClassVar[str] = ""

    def _opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[list[str], int]:
        taken = int(bool(messages) and messages[0].role == "system")
        system = messages[0].content.strip() if taken else ""
        full = self.style == "full"
        environment = "Environment: ipython\n" if tools and full else ""
        dates = f"Cutting Knowledge Date: December 2023\nToday Date: {LLAMA3_DATE}\n\n" if full else ""
        pieces = [_BEGIN, *_head("system"), environment + dates + system, _END]
        if not tools:
            return pieces, taken
        first = messages[taken] if len(messages) > taken else None
        if first is None or first.role != "user":
            raise PolicyError(
                "the Llama 3 template shows the tools in the first user message; the conversation has none"
            )
        return [*pieces, *_head("user"), self._asked(tools) + first.content.strip(), _END], taken + 1

    def _asked(self, tools: Sequence[ToolSpec]) -> str:
        if self.style == "compact":
            return tool_lines(tools, self.style) + "\n"
        return _ASKED + "".join(
            f"{json.dumps(function_schema(tool), ensure_ascii=False, indent=4)}\n\n" for tool in tools
        )

    def _heard(self, messages: Sequence[Message]) -> list[str]:
        pieces: list[str] = []
        for message in messages:
            if message.role == "tool":
                pieces += [*_head("ipython"), to_json(message.content), _END]
            else:
                pieces += [*_head(message.role), message.content.strip(), _END]
        return pieces

    def _header(self, *, forgotten: bool = False) -> list[str]:
        return _head("assistant")

    def _written(self, message: Message, *, forgotten: bool = False) -> list[str]:
        if not message.calls:
            return [message.content.strip()] if message.content.strip() else []
        if len(message.calls) > 1 or message.content.strip():
            raise PolicyError(
                f"a Llama 3 message is one call or text; found {len(message.calls)} calls and "
                f"{len(message.content)} characters of text: write them as separate messages"
            )
        (call,) = message.calls
        return [to_json({"name": call.name, "parameters": call.arguments})]

    def _read(self, pieces: Iterable[str], *, truncated: bool, tools: Sequence[ToolSpec]) -> Parsed:
        parts = list(pieces)
        text = "".join(part for part in parts if not isinstance(part, Tag)).strip()
        if not _is_attempt(text, tagged=any(isinstance(part, Tag) for part in parts)):
            return Parsed(text, "", (), ())
        found = parse_call(text, arguments_key="parameters")
        if not isinstance(found, BrokenCall):
            return Parsed("", "", (found,), ())
        if truncated and found.kind == "not_json":
            found = broken_call("truncated", "the call was cut off by the length limit", text)
        return Parsed("", "", (), (found,))


def _head(role: str) -> list[str]:
    return [_HEAD, role, _HEAD_END, "\n\n"]


def _is_attempt(text: str, *, tagged: bool) -> bool:
    """Whether a message means to be a call: it has the call's tag, or begins as an object that names something."""
    return tagged or (text.startswith(("{", "[{")) and '"name"' in text)
