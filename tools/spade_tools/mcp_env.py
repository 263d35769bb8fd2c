"""McpEnv: a user's own MCP server as an environment, to evaluate and train on."""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spade_environments import (
    Action,
    EnvironmentFault,
    FaultKind,
    HostFault,
    Observation,
    Reply,
    SandboxFault,
    StepResult,
    ToolCall,
    ToolSpec,
)
from spade_environments.env import OrderError
from spade_environments.limits import Limits
from spade_environments.validation import ArgumentValidator, check_reply, clean_text
from spade_tools.connection import McpTarget
from spade_tools.refusals import malformed_result, over_result
from spade_tools.toolset import McpToolset, Toolset

__all__ = ["Checker", "FinishedPlay", "MadeCall", "McpEnv", "McpTask", "Reset"]

_LONGEST = Limits().observation


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTask:
    """One task to do with the server's tools.

    Attributes:
        instruction: what the agent reads first.
        data: what `reset` and the checker need; the agent never sees it.
        solution: actions that solve it, where they are known; for scripted plays, never shown to the agent.
    """

    instruction: str
    data: Mapping[str, Any] = field(default_factory=dict)
    solution: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCall:
    """A call that reached the server, and its answer."""

    name: str
    arguments: Mapping[str, Any]
    result: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPlay:
    """What a checker judges: the agent has replied, and the server still runs.

    Attributes:
        task: the one that was set.
        calls: those that reached the server, in order.
        reply: the agent's last message.
        toolset: the server, to ask what state it is in; it also calls tools that were hidden from the agent.
    """

    task: McpTask
    calls: tuple[MadeCall, ...]
    reply: str
    toolset: Toolset


Checker = Callable[[FinishedPlay], float | Awaitable[float]]
"""From a finished play to its return in [0, 1]."""

Reset = Callable[[Toolset, McpTask, random.Random], Awaitable[None]]
"""Brings the server into the state that a task begins with; all its randomness comes from the generator."""


class McpEnv:
    """The `Env` Protocol over an MCP server; the agent's first Reply ends the episode, and the checker scores it.

    Each `reset` connects anew: a command is started afresh, so that nothing of one episode is left in the next. An
    address or a server in this process keeps its state unless `reset` undoes it.

    A call that the server refuses is a tool error, which the agent reads. A server that cannot be reached, dies, hangs
    or answers nonsense, or that takes away or changes a tool in mid-episode, raises `HostFault`: the play has no
    return. A checker or `reset` that raises, or a score outside [0, 1], raises `EnvironmentFault`.

    Args:
        server: where it is, or a function that gives one for each episode.
        tasks: what can be asked for; `reset(seed)` sets task `seed % len(tasks)`.
        checker: scores a finished play.
        reset: see `Reset`; not needed where a fresh server is in the right state.
        max_turns: assistant messages that an episode may have.
        hidden: names of tools that `reset` and the checker use and the agent may not.
        seconds: wall-clock limit of connecting and of each request.

    >>> env = McpEnv(McpCommand(command="notes-server"), [McpTask(instruction="Add a note that says hello.")],
    ...              checker=lambda play: float(any(call.name == "add_note" for call in play.calls)))  # doctest: +SKIP
    """

    def __init__(
        self,
        server: McpTarget | Callable[[], McpTarget],
        tasks: Sequence[McpTask],
        checker: Checker,
        reset: Reset | None = None,
        *,
        max_turns: int = 20,
        hidden: Sequence[str] = (),
        seconds: float = 60.0,
    ) -> None:
        if not tasks or max_turns < 1:
            raise ValueError(f"found {len(tasks)} tasks and max_turns {max_turns}; wanted at least one of each")
        self.max_turns = max_turns
        self._server, self._tasks, self._checker, self._reset = server, tuple(tasks), checker, reset
        self._hidden, self._seconds = frozenset(hidden), seconds
        self._toolset: McpToolset | None = None
        self._closed = False
        self._begin(self._tasks[0], ())

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What the agent may call from the start of the episode; valid after `reset`."""
        return self._tools

    async def reset(self, seed: int) -> Observation:
        """Connect, bring the server into the task's first state, and set the task."""
        if self._closed:
            raise OrderError("the episode is closed; open another one")
        await self._hang_up()
        target = self._server() if callable(self._server) else self._server
        toolset = self._toolset = await McpToolset.open(target, seconds=self._seconds)
        task = self._tasks[seed % len(self._tasks)]
        if self._reset is not None:
            await _users("reset", self._reset, toolset, task, random.Random(seed))
            await toolset.refresh()
        self._begin(task, self._offered(toolset.tools))
        return Observation(role="user", text=clean_text(task.instruction))

    async def step(self, action: Action) -> StepResult:
        """Take one action; after the end, an error that repeats the last reward.

        Raises:
            OrderError: before `reset` or after `aclose`.
            HostFault: the server failed, or its tools changed.
            EnvironmentFault: the checker failed.
        """
        if self._last is not None:
            return over_result(action, self._last)
        if self._toolset is None:
            raise OrderError("call reset(seed) before step")
        if isinstance(action, Reply):
            error = check_reply(action.text)
            return malformed_result(action, error) if error else await self._finish(self._toolset, action.text)
        error = self._validator.check(action, [tool.name for tool in (*self._tools, *self._added)])
        return malformed_result(action, error) if error else await self._call(self._toolset, action)

    async def solution(self) -> tuple[Action, ...]:
        """The actions that solve the task just set: privileged.

        Raises:
            EnvironmentFault: the task was written without any.
        """
        if not self._task.solution:
            raise EnvironmentFault(FaultKind.REJECT, "solution", "this task was written without a solution")
        return self._task.solution

    async def aclose(self) -> None:
        """Hang up."""
        self._closed = True
        await self._hang_up()

    def _begin(self, task: McpTask, tools: tuple[ToolSpec, ...]) -> None:
        self._task, self._tools = task, tools
        self._added: tuple[ToolSpec, ...] = ()
        self._validator = ArgumentValidator(tools)
        self._calls: list[MadeCall] = []
        self._last: StepResult | None = None

    async def _hang_up(self) -> None:
        toolset, self._toolset, self._last = self._toolset, None, None
        if toolset is not None:
            await toolset.aclose()

    def _offered(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        return tuple(tool for tool in tools if tool.name not in self._hidden)

    async def _call(self, toolset: McpToolset, call: ToolCall) -> StepResult:
        answer = await toolset.call(call)
        if answer.is_error:  # it may be the server's doing, which no agent should pay for
            await self._check_tools(toolset)
        text = _shortened(answer.text)
        self._calls.append(MadeCall(name=call.name, arguments=call.arguments, result=text, ok=not answer.is_error))
        observation = Observation(role="tool", text=text, call_id=call.id)
        return StepResult(
            observation=observation, reward=0.0, terminated=False, truncated=False, info={"ok": not answer.is_error}
        )

    async def _finish(self, toolset: McpToolset, reply: str) -> StepResult:
        await self._check_tools(toolset)
        play = FinishedPlay(task=self._task, calls=tuple(self._calls), reply=reply, toolset=toolset)
        score = await _users("step", self._checker, play)
        if not isinstance(score, int | float) or not 0.0 <= score <= 1.0:
            raise EnvironmentFault(FaultKind.ENV_ERROR, "step", f"the checker returned {score!r}; wanted 0 to 1")
        observation = Observation(role="user", text="The task is over.")
        result = StepResult(observation=observation, reward=float(score), terminated=True, truncated=False)
        self._last = result
        return result

    async def _check_tools(self, toolset: McpToolset) -> None:
        """That what the agent was offered still stands; a tool that came later is not offered: a prompt's are fixed."""
        now = {tool.name: tool for tool in await toolset.refresh()}
        changed = [tool.name for tool in self._tools if now.get(tool.name) != tool]
        if changed:
            raise HostFault(FaultKind.PROTOCOL, "step", f"the MCP server changed its tool {changed[0]} in mid-episode")


async def _users(phase: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the user's own function gives; what it raises is the environment's fault, unless the server failed in it."""
    try:
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else result
    except SandboxFault:
        raise
    except Exception as error:
        told = f"{getattr(function, '__name__', 'a function')} raised {type(error).__name__}: {error}"
        raise EnvironmentFault(FaultKind.ENV_ERROR, phase, told) from error


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n[{len(text) - _LONGEST} more characters are not shown]"
