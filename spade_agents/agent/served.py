"""A served episode as a play sees it: its task is set at the start, a message is a reply, and its end is the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.mcp import MCPServer

from spade_agents.agent.prompts import PromptStyle
from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.rendering import announce_tools
from spade_environments import ToolSpec
from spade_tools.reserved import FINISH_TURN, GET_TASK, new_tools

__all__ = ["ServedEpisode", "served_among"]

_APART = frozenset({GET_TASK.name, FINISH_TURN.name})


class ServedEpisode(MCPServer):
    """A connected server of one episode, as the SDK takes servers; connecting and cleaning up stay its owner's.

    Args:
        inner: the server.

    Attributes:
        is_over: whether the environment has ended the episode.
        said: what it said last.
    """

    def __init__(self, inner: MCPServer) -> None:
        super().__init__()
        self.inner = inner
        self.is_over = False
        self.said = ""

    @property
    def name(self) -> str:
        return self.inner.name

    async def connect(self) -> None:
        """It is connected."""

    async def cleanup(self) -> None:
        """Left to its owner."""

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        """Of the environment alone, as in a play."""
        return [tool for tool in await self.inner.list_tools(run_context, agent) if tool.name not in _APART]

    async def list_prompts(self) -> Any:
        return await self.inner.list_prompts()

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        return await self.inner.get_prompt(name, arguments)

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> Any:
        """Also notes whether the episode is over."""
        result = await self.inner.call_tool(tool_name, arguments, meta)
        self._note(result)
        return result

    async def task(self) -> str:
        """The current instruction.

        Raises:
            InfrastructureError: the server gives none in the form of `spade serve`.
        """
        return str(self._note(await self.inner.call_tool(GET_TASK.name, {}))["observation"])

    async def specs(self) -> tuple[ToolSpec, ...]:
        """The environment's tools."""
        return tuple(
            ToolSpec(name=tool.name, description=tool.description or "", parameters=tool.input_schema)
            for tool in await self.list_tools()
        )

    async def reply(self, text: str, *, style: PromptStyle) -> str:
        """Hand the turn back with a message; what the user says to it, tools that it unlocks announced as in a play."""
        told = self._note(await self.inner.call_tool(FINISH_TURN.name, {"message": text}))
        return announce_tools(str(told["observation"]), new_tools(told), style=style)

    def _note(self, result: Any) -> dict[str, Any]:
        told = result.structured_content
        if not isinstance(told, dict) or not {"observation", "over"} <= told.keys():
            raise InfrastructureError(
                f"the MCP server {self.name!r} has a tool {GET_TASK.name}, but does not answer as `spade serve` does; "
                "say as TASK what is wanted, and its tools are used as they are"
            )
        self.is_over, self.said = self.is_over or bool(told["over"]), str(told["observation"])
        return told


async def served_among(servers: Sequence[MCPServer]) -> ServedEpisode:
    """The one of these servers that sets a task.

    Raises:
        UsageError: none does, or several do.
    """
    found = [server for server in servers if any(tool.name == GET_TASK.name for tool in await server.list_tools())]
    if len(found) != 1:
        raise UsageError(
            f"no TASK was given, and {len(found)} of the MCP servers set one ({GET_TASK.name}); say what is wanted, or "
            'give one server that does, such as --mcp "spade serve ticket_desk"'
        )
    return ServedEpisode(found[0])
