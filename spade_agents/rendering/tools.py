"""How tools are shown to a model: the block of the system message, and the announcement of unlocked ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from spade_agents.rendering.tags import CALL, CALL_END
from spade_environments import ToolSpec

__all__ = ["RenderStyle", "announce_tools", "function_schema", "to_json", "tool_lines", "tools_block"]

RenderStyle = Literal["full", "compact"]

_BEFORE: Final = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n"
)
_AFTER: Final = (
    "\n\nFor each function call, return a json object with function name and arguments within ",
    CALL,
    CALL_END,
    " XML tags:\n",
    CALL,
    '\n{"name": <function-name>, "arguments": <args-json-object>}\n',
    CALL_END,
)


def to_json(value: Any) -> str:
    """JSON as the template's `tojson` writes it: separators ", " and ": ", no escapes, keys in their own order."""
    return json.dumps(_plain(value), ensure_ascii=False)


def tools_block(tools: Sequence[ToolSpec], style: RenderStyle) -> list[str]:
    """The pieces of the tools block: Qwen3's own text in style `full`, only the lines between the tags in `compact`."""
    if style == "compact":
        return [tool_lines(tools, style)]
    return [_BEFORE, tool_lines(tools, style), *_AFTER]


def announce_tools(text: str, tools: Sequence[ToolSpec], *, style: RenderStyle) -> str:
    """A user message that also announces tools just unlocked, schemas included; `text` alone where there are none."""
    if not tools:
        return text
    if style == "compact":
        return f"{text}\n{tool_lines(tools, style)}"
    return f"{text}\n\nFrom now on you may also call these functions:\n{tool_lines(tools, style)}"


def tool_lines(tools: Sequence[ToolSpec], style: RenderStyle) -> str:
    """The tools between their tags, a line each."""
    return "\n".join(["<tools>", *(_line(tool, style) for tool in tools), "</tools>"])


def _line(tool: ToolSpec, style: RenderStyle) -> str:
    schema = function_schema(tool)
    return to_json(schema["function"] if style == "compact" else schema)


def function_schema(tool: ToolSpec) -> dict[str, Any]:
    """A tool as chat templates and OpenAI-compatible endpoints take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": _plain(tool.parameters)}
    return {"type": "function", "function": function}


def _plain(value: Any) -> Any:
    """`value` with every Mapping as a dict, so that frozen mappings are JSON-able too."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
