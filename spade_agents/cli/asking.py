"""Asking a person: lines from a terminal or a pipe, and a tool's arguments one by one, each checked at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from spade_agents.cli.output import tell
from spade_agents.terminal import visible_line
from spade_environments import ToolCall, ToolSpec
from spade_environments.validation import ArgumentValidator

__all__ = ["ask", "ask_arguments", "signature"]

_LEFT_OUT = object()


def ask(prompt: str) -> str:
    """A line from standard input; a line from a pipe is shown, as a terminal would show it.

    Raises:
        EOFError: there are no more.
    """
    if sys.stdin.isatty():
        with suppress(ImportError):  # Windows has none
            import readline  # noqa: F401 (gives `input` history and editing)
        return input(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    line = line.rstrip("\r\n")
    tell(f"{prompt}{line}")
    return line


def signature(tool: ToolSpec) -> str:
    """A tool as one line: `close_ticket(ticket: string, reason?: string)`; a question mark says that it is optional."""
    required = tool.parameters.get("required", ())
    parts = [
        f"{visible_line(name)}{'' if name in required else '?'}: {_kind(schema)}"
        for name, schema in tool.parameters.get("properties", {}).items()
    ]
    return f"{tool.name}({', '.join(parts)})"


def ask_arguments(tool: ToolSpec) -> dict[str, Any]:
    """Ask for each argument until it fits its schema; an empty line leaves an optional one out."""
    given: dict[str, Any] = {}
    required = tool.parameters.get("required", ())
    for name, schema in tool.parameters.get("properties", {}).items():
        value = _ask_one(tool, name, schema, optional=name not in required)
        if value is not _LEFT_OUT:
            given[name] = value
    return given


def _ask_one(tool: ToolSpec, name: str, schema: Mapping[str, Any], *, optional: bool) -> Any:
    alone = {**tool.parameters, "properties": {name: schema}, "required": [name]}
    validator = ArgumentValidator([ToolSpec(name=tool.name, description="", parameters=alone)])
    prompt = f"  {visible_line(name)} ({_kind(schema)}{', or nothing' if optional else ''}): "
    while True:
        text = ask(prompt)
        if optional and not text.strip():
            return _LEFT_OUT
        value = _read(text, schema)
        error = validator.check(ToolCall(name=tool.name, arguments={name: value}))
        if error is None:
            return value
        tell(f"  {error.text}")


def _read(text: str, schema: Mapping[str, Any]) -> Any:
    """Text as a value of the schema's type; text that is none stays as it is, for the validator to tell."""
    if schema.get("type") == "string":
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"yes": True, "no": False}.get(text.strip().lower(), text) if schema.get("type") == "boolean" else text
    allows_text = any(part.get("type") == "string" for part in schema.get("anyOf", ()))
    is_choice = text in schema.get("enum", ())
    return text if is_choice or (allows_text and not isinstance(value, str | list | dict | None)) else value


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(visible_line(str(value)) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    kind = str(schema.get("type", "any JSON"))
    shapes = {"array": "list, as JSON", "object": "object, as JSON", "boolean": "true or false"}
    return visible_line(shapes.get(kind, kind))
