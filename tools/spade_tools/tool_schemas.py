"""What an MCP server lists as a tool, checked: a ToolSpec whose schema the argument validator can use."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

from mcp.types import Tool

from spade_environments import FaultKind, HostFault, ToolSpec
from spade_environments.validation import clean_text

__all__ = ["tool_spec"]

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_DESCRIPTION = 4000


def tool_spec(tool: Tool, phase: str) -> ToolSpec:
    """The tool as it is offered to a policy; its description is cleaned, and cut at 4000 characters.

    Raises:
        HostFault: a name that no model can call, or a schema that is none, or that points elsewhere.
    """
    if not _NAME.fullmatch(tool.name):
        raise _fault(phase, f"a tool is named {clean_text(tool.name)[:80]!r}; wanted letters, digits and _ . / -")
    schema = dict(tool.input_schema)
    if schema.get("type") != "object":
        raise _fault(phase, f"the schema of {tool.name} is of type {schema.get('type')!r}; wanted object")
    wrong = _wrong_in(json.dumps(schema))
    if wrong is not None:
        raise _fault(phase, f"the schema of {tool.name} {wrong}")
    return ToolSpec(name=tool.name, description=clean_text(tool.description or "")[:_DESCRIPTION], parameters=schema)


@functools.lru_cache(maxsize=1024)  # the episodes of one environment offer the same schemas over and over
def _wrong_in(text: str) -> str | None:
    from jsonschema import Draft202012Validator, SchemaError

    schema = json.loads(text)
    try:
        Draft202012Validator.check_schema(schema)
        outside = next((target for target in _references(schema) if not target.startswith("#")), None)
    except (SchemaError, RecursionError) as error:
        return f"is none: {clean_text(str(error))[:200]}"
    return None if outside is None else f"points to {clean_text(outside)[:80]!r}; wanted it whole"


def _references(schema: Any) -> Iterator[str]:
    """The targets of every `$ref` in a schema."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    for part in parts:
        yield from _references(part)


def _fault(phase: str, detail: str) -> HostFault:
    return HostFault(FaultKind.PROTOCOL, phase, f"the MCP server: {detail}")
