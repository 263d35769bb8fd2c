"""The items of the openai-agents SDK, to and from our messages and tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from agents import FunctionTool, Tool, Usage

from spade_agents.messages import Message
from spade_agents.trajectory import Completion
from spade_environments import ToolCall, ToolSpec

__all__ = ["content_text", "identity", "item_messages", "tool_specs", "usage_of"]


def tool_specs(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """The function tools of an agent, those of its MCP servers among them."""
    return tuple(
        ToolSpec(name=tool.name, description=tool.description, parameters=tool.params_json_schema)
        for tool in tools
        if isinstance(tool, FunctionTool)
    )


def identity(item: Any) -> str:
    """A call's or a message's identity; the results of calls have none of their own."""
    fields = item if isinstance(item, dict) else item.model_dump()
    if fields.get("type") == "function_call_output":
        return ""
    return str(fields.get("call_id") or fields.get("id") or "")


def item_messages(items: Sequence[Any]) -> list[Message]:
    """Items of the Responses form as messages; reasoning and the like are left out."""
    return [message for item in items for message in _message(dict(item))]


def _message(item: dict[str, Any]) -> Iterator[Message]:
    kind = item.get("type", "message")
    if kind == "function_call_output":
        yield Message(role="tool", content=content_text(item.get("output")), call_id=str(item.get("call_id", "")))
    elif kind == "function_call":
        try:
            arguments = json.loads(item.get("arguments") or "{}")
        except ValueError:
            arguments = {}
        call = ToolCall(name=str(item.get("name", "")), arguments=arguments, id=str(item.get("call_id", "")))
        yield Message(role="assistant", content="", calls=(call,))
    elif kind == "message":
        role = item.get("role", "user")
        yield Message(
            role=role if role in ("system", "user", "assistant") else "system",
            content=content_text(item.get("content")),
        )


def content_text(content: Any) -> str:
    """The text of a content, which is text, a part or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("text"))


def usage_of(completion: Completion) -> Usage:
    """What one completion took."""
    used = completion.usage
    return Usage(
        requests=1,
        input_tokens=used.prompt_tokens,
        output_tokens=used.completion_tokens,
        total_tokens=used.prompt_tokens + used.completion_tokens,
    )
