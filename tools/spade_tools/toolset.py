"""McpToolset: the tools of any MCP server, over stdio, HTTP or in memory, as ToolSpecs to offer and calls to make."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

import msgspec
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

from spade_environments import FaultKind, HostFault, ToolCall, ToolSpec
from spade_environments.validation import clean_text
from spade_tools.connection import HeldClient, McpCommand, McpTarget, McpUrl
from spade_tools.tool_schemas import tool_spec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["McpCommand", "McpTarget", "McpToolset", "McpUrl", "ToolAnswer", "Toolset", "open_toolset"]

_PAGES = 100
_TOOLS = 1024
_NO_ANSWERS = (INVALID_REQUEST, PARSE_ERROR)
_SERVER_ERRORS = range(-32099, -31999)
"""The codes that JSON-RPC leaves to servers for failures of their own, a closed connection among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a tool answered.

    Attributes:
        text: for the model to read, cleaned of control characters.
        is_error: whether the server calls it a failed call.
        data: the structured part, where there is one.
    """

    text: str
    is_error: bool = False
    data: Mapping[str, Any] | None = None


class Toolset(Protocol):
    """Tools that can be offered to a policy and called for it."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...

    async def call(self, call: ToolCall) -> ToolAnswer: ...


class McpToolset:
    """A connection to one MCP server; from `open_toolset` or `McpToolset.open`.

    What the server refuses (an unknown tool, unfit arguments, an exception of its own) is an answer with `is_error`. A
    server that cannot be reached, dies, hangs or answers what the protocol does not know raises `HostFault`, and so
    does every later call.
    """

    def __init__(self, client: HeldClient, tools: tuple[ToolSpec, ...]) -> None:
        self._client = client
        self._tools = tools

    @classmethod
    async def open(cls, target: McpTarget, *, seconds: float = 60.0) -> Self:
        """Connect and list the tools.

        Args:
            target: a command to start, an address, or a server object in this process.
            seconds: wall-clock limit of the connection and of each request.

        Raises:
            HostFault: the server cannot be reached, or what it offers cannot be offered on.
        """
        client = await HeldClient.open(target, seconds=seconds)
        try:
            return cls(client, await _listed(client, "load"))
        except BaseException:
            await client.aclose()
            raise

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """As the server listed them last."""
        return self._tools

    async def refresh(self) -> tuple[ToolSpec, ...]:
        """Ask the server again which tools it has."""
        self._tools = await _listed(self._client, "step")
        return self._tools

    async def call(self, call: ToolCall) -> ToolAnswer:
        """Make a call; arguments go to the server as they are.

        Raises:
            HostFault: there is no answer.
        """
        try:
            result = await self._client.call_tool(call.name, dict(call.arguments))
        except MCPError as error:
            if error.code in _NO_ANSWERS or error.code in _SERVER_ERRORS:
                await self._client.fail(error, "step")
            return ToolAnswer(text=f"Error: {clean_text(error.message)}", is_error=True)
        return _answer(result)

    async def aclose(self) -> None:
        """Hang up; a server that was started is ended."""
        await self._client.aclose()


@asynccontextmanager
async def open_toolset(target: McpTarget, *, seconds: float = 60.0) -> AsyncIterator[McpToolset]:
    """`McpToolset.open` for `async with`.

    >>> async with open_toolset(McpCommand(command="my-server")) as toolset:    # doctest: +SKIP
    ...     print([tool.name for tool in toolset.tools])
    """
    toolset = await McpToolset.open(target, seconds=seconds)
    try:
        yield toolset
    finally:
        await toolset.aclose()


async def _listed(client: HeldClient, phase: str) -> tuple[ToolSpec, ...]:
    """All pages of the list, checked."""
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        try:
            page = await client.list_tools(cursor, phase)
        except MCPError as error:
            await client.fail(error, phase)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None or len(found) > _TOOLS:
            break
    if cursor is not None or len(found) > _TOOLS:
        _refuse(f"the list of tools goes on after {len(found)}; at most {_TOOLS}", phase)
    specs = tuple(tool_spec(tool, phase) for tool in found)
    if len({spec.name for spec in specs}) != len(specs):
        _refuse("two tools have one name", phase)
    return specs


def _refuse(detail: str, phase: str) -> NoReturn:
    raise HostFault(FaultKind.PROTOCOL, phase, f"the MCP server: {detail}")


def _answer(result: CallToolResult) -> ToolAnswer:
    parts = [_readable(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [msgspec.json.encode(result.structured_content).decode()]
    return ToolAnswer(text=clean_text("\n".join(parts)), is_error=bool(result.is_error), data=result.structured_content)


def _readable(block: Any) -> str:
    """A block of content as text; what is no text is named by its kind."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return block.resource.text
    if isinstance(block, ResourceLink):
        return f"[{block.name}: {block.uri}]"
    kind = getattr(block, "mime_type", None) or getattr(getattr(block, "resource", None), "mime_type", None)
    return f"[{block.type}, {kind or 'of unknown type'}, not shown]"
