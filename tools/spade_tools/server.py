"""One episode of one environment as an MCP server: its client sees tools and observations, nothing privileged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from spade_environments import Env, Observation, Reply, SandboxFault, ToolCall, ToolSpec

__all__ = ["EpisodeServer", "Phase"]

_OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"observation": {"type": "string"}, "over": {"type": "boolean"}},
    "required": ["observation", "over"],
}
_GET_TASK = ToolSpec(
    name="get_task",
    description="Read the current instruction again.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
)
_FINISH_TURN = ToolSpec(
    name="finish_turn",
    description="Hand the turn back to the user with a message; the next instruction comes back.",
    parameters={
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
        "additionalProperties": False,
    },
)


class Phase(StrEnum):
    """Where the episode stands."""

    NEEDS_RESET = "needs reset"
    RUNNING = "running"
    OVER = "over"


class EpisodeServer:
    """The state machine between an MCP client and an `Env`, in agent mode.

    The episode starts on first contact with `seed`; calls are taken one at a time; after `env.max_turns` actions or a
    terminal step every call is answered with an error that says so. Reward, seed and info stay on this side.

    Args:
        env: not reset yet; closed by `aclose`.
        seed: of the instance.
        name: shown to the client.
        takes_replies: whether the environment has a user to reply to (a ToolEnv): adds `finish_turn`.
    """

    def __init__(self, env: Env, *, seed: int, name: str, takes_replies: bool) -> None:
        self.phase = Phase.NEEDS_RESET
        self.reward: float | None = None
        self._env = env
        self._seed = seed
        self._takes_replies = takes_replies
        self._task = ""
        self._tools: tuple[ToolSpec, ...] = ()
        self._turns = 0
        self._lock = asyncio.Lock()
        self.server: Server[Any] = Server(name, on_list_tools=self._list_tools, on_call_tool=self._call_tool)

    async def aclose(self) -> None:
        """End the episode and its process."""
        self.phase = Phase.OVER
        await self._env.aclose()

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        async with self._lock:
            await self._start()
        own = (_GET_TASK, _FINISH_TURN) if self._takes_replies else (_GET_TASK,)
        return ListToolsResult(tools=[_tool(spec) for spec in (*self._tools, *own)])

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        async with self._lock:
            try:
                await self._start()
                return await self._answer(params.name, arguments)
            except SandboxFault as fault:
                self.phase = Phase.OVER
                return self._result(f"Error: the environment failed ({fault.kind.value}); the episode is over.", True)

    async def _start(self) -> None:
        if self.phase is Phase.NEEDS_RESET:
            observation = await self._env.reset(self._seed)
            self.phase, self._task, self._tools = Phase.RUNNING, observation.text, self._env.tools

    async def _answer(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        if name == _GET_TASK.name:
            return self._result(self._task)
        if self.phase is Phase.OVER:
            return self._result("Error: the episode is over; start a new one.", True)
        if name == _FINISH_TURN.name and self._takes_replies:
            if not isinstance(arguments.get("message"), str) or len(arguments) != 1:
                return self._result("Error: finish_turn wants one argument, message, a string.", True)
            return await self._step(Reply(text=arguments["message"]))
        return await self._step(ToolCall(name=name, arguments=arguments))

    async def _step(self, action: ToolCall | Reply) -> CallToolResult:
        result = await self._env.step(action)
        self._turns += 1
        observation = result.observation
        if result.terminated:
            self.phase, self.reward = Phase.OVER, result.reward
        elif result.truncated or self._turns >= self._env.max_turns:
            self.phase, self.reward = Phase.OVER, 0.0
        if observation.role == "user" and isinstance(action, Reply):
            self._task = observation.text
        self._tools += observation.tools
        return self._result(_text(observation), "error" in result.info or observation.text.startswith("Error: "))

    def _result(self, text: str, is_error: bool = False) -> CallToolResult:
        return CallToolResult(
            content=[TextContent(type="text", text=text)],
            structured_content={"observation": text, "over": self.phase is Phase.OVER},
            is_error=is_error,
        )


def _text(observation: Observation) -> str:
    if not observation.tools:
        return observation.text
    names = ", ".join(f"{spec.name}: {spec.description}" for spec in observation.tools)
    return f"{observation.text}\nNew tools: {names}"


def _tool(spec: ToolSpec) -> Tool:
    return Tool(
        name=spec.name,
        description=spec.description,
        input_schema=dict(spec.parameters),
        output_schema=_OUTPUT_SCHEMA,
    )
