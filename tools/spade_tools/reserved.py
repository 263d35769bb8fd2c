"""The tools that the server adds to an environment's own, and what every tool returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spade_environments import ToolSpec
from spade_tools.types import Mode

__all__ = [
    "FINISH_TURN",
    "GET_TASK",
    "HINT",
    "OUTPUT_SCHEMA",
    "RESERVED",
    "RESET",
    "announced",
    "new_tools",
    "output_schema",
]


def _tool(name: str, description: str, required: tuple[str, ...] = (), **properties: Any) -> ToolSpec:
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return ToolSpec(
        name=name, description=description, parameters=parameters | ({"required": list(required)} if required else {})
    )


GET_TASK = _tool("get_task", "Read the current instruction again. It costs no turn.")
FINISH_TURN = _tool(
    "finish_turn",
    "Hand the turn back to the user with a message, once the current instruction is carried out; "
    "the user's next instruction comes back.",
    ("message",),
    message={"type": "string", "description": "What the user reads; may be empty."},
)
RESET = _tool(
    "reset",
    "Begin a new episode; the one that runs is given up.",
    seed={
        "type": "integer",
        "description": "Which instance; if left out, the one that the server was started for, or any.",
    },
)
HINT = _tool("hint", "Read the hint of this environment.")
RESERVED = (GET_TASK, FINISH_TURN, RESET, HINT)

_NEW_TOOL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "description": {"type": "string"},
        "inputSchema": {"type": "object"},
    },
    "required": ["name", "description", "inputSchema"],
    "additionalProperties": False,
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "observation": {"type": "string", "description": "What the environment says."},
        "over": {"type": "boolean", "description": "Whether the episode is over."},
        "error": {"type": "string", "description": "The kind of a malformed call."},
        "new_tools": {"type": "array", "items": _NEW_TOOL, "description": "Tools that can be called from now on."},
    },
    "required": ["observation", "over"],
    "additionalProperties": False,
}
_SCORE: dict[str, Any] = {"score": {"type": "number", "description": "Of an episode that is over, from 0 to 1."}}
_PLAY_SCHEMA = {**OUTPUT_SCHEMA, "properties": {**OUTPUT_SCHEMA["properties"], **_SCORE}}


def output_schema(mode: Mode) -> dict[str, Any]:
    """The JSON Schema of every tool's `structuredContent`."""
    return _PLAY_SCHEMA if mode is Mode.PLAY else OUTPUT_SCHEMA


def announced(spec: ToolSpec) -> dict[str, Any]:
    """A tool as an answer's `new_tools` names it."""
    return {"name": spec.name, "description": spec.description, "inputSchema": dict(spec.parameters)}


def new_tools(structured: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    """The tools that an answer's `structuredContent` announces."""
    return tuple(
        ToolSpec(name=tool["name"], description=tool["description"], parameters=tool["inputSchema"])
        for tool in structured.get("new_tools", ())
    )
