"""RemoteEpisode: an episode behind `/episodes/{id}/mcp` as an `Env`, for a trainer who also holds the control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from spade_environments import (
    Action,
    EnvironmentSpec,
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
from spade_environments.sandbox import Sandbox
from spade_environments.validation import ArgumentValidator, CallError, CallErrorKind, check_reply
from spade_tools.connection import McpUrl
from spade_tools.fault_text import read_fault
from spade_tools.http import HttpServer, serve_http
from spade_tools.refusals import malformed_result, over_result
from spade_tools.reserved import FINISH_TURN, GET_TASK, new_tools
from spade_tools.settings import HttpSettings
from spade_tools.table import FullError
from spade_tools.toolset import McpToolset, ToolAnswer
from spade_tools.types import EpisodeCreated, EpisodeLimits, EpisodeOutcome, EpisodeReport, EpisodeRequest

__all__ = ["EpisodeControl", "RemoteEpisode", "RemoteEpisodes", "open_remote_episodes"]

_UNCOUNTED = EpisodeLimits(turns=10_000)
"""Rollout counts messages, of which one may hold several calls; the server would count calls."""
_OWN = frozenset({GET_TASK.name, FINISH_TURN.name})
_NOT_SENT = frozenset(
    {CallErrorKind.UNKNOWN_TOOL, CallErrorKind.NOT_FINITE, CallErrorKind.NOT_TEXT, CallErrorKind.TOO_LONG}
)
"""Malformed calls that JSON or the server's limits do not let through, or that may name a tool of the server's own."""

_FOR_OURSELVES = HttpSettings(max_episodes=4096, calls_per_second=100_000, burst=100_000, idle_seconds=3600.0)
"""A server that nobody but its own process knows of: the rollout's limits hold, not those against strangers."""


class EpisodeControl(Protocol):
    """The control plane: makes episodes, tells the trainer how they stand, ends them."""

    async def create(self, request: EpisodeRequest) -> EpisodeCreated: ...

    async def report(self, identity: str, *, last: int | None = None) -> EpisodeReport | None: ...

    async def end(self, identity: str) -> EpisodeReport | None: ...


class RemoteEpisode:
    """The `Env` Protocol over one episode URL at a time: the same observations as the environment in process.

    `get_task` and `finish_turn` are used here and stand neither in `tools` nor in what a call may name. Outcome and
    reward come from the control plane.

    Args:
        control: makes the episodes.
        spec: what is played.
        sandbox: where gold actions are computed, which no episode URL tells.
        seconds: wall-clock limit of each request.
    """

    def __init__(self, control: EpisodeControl, spec: EnvironmentSpec, sandbox: Sandbox, *, seconds: float) -> None:
        self._control, self._spec, self._sandbox, self._seconds = control, spec, sandbox, seconds
        self._created: EpisodeCreated | None = None
        self._toolset: McpToolset | None = None
        self._tools: tuple[ToolSpec, ...] = ()
        self._known: tuple[ToolSpec, ...] = ()
        self._validator = ArgumentValidator(())
        self._last: StepResult | None = None
        self._closed = False

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What can be called at the start; valid after `reset`."""
        return self._tools

    @property
    def max_turns(self) -> int:
        """The environment's own limit; valid after `reset`."""
        return self._live()[0].max_turns

    @property
    def identity(self) -> str:
        """Of the episode at the server; valid after `reset`."""
        return self._live()[0].id

    async def reset(self, seed: int) -> Observation:
        """Make an episode of `seed` and read its task.

        Raises:
            EnvironmentFault: the environment cannot be loaded or reset.
            HostFault: the server takes no more episodes, or failed.
        """
        if self._closed:
            raise OrderError("the episode is closed; open another one")
        await self._end()
        try:
            created = await self._control.create(
                EpisodeRequest(environment=self._spec.id, seed=seed, limits=_UNCOUNTED)
            )
        except FullError as error:
            raise HostFault(FaultKind.HOST_FAULT, "reset", str(error)) from error
        self._created, self._last = created, None
        toolset = self._toolset = await McpToolset.open(McpUrl(url=created.url), seconds=self._seconds)
        self._tools = tuple(tool for tool in toolset.tools if tool.name not in _OWN)
        self._known = self._tools
        self._validator = ArgumentValidator(self._known)
        task = await toolset.call(ToolCall(name=GET_TASK.name, arguments={}))
        if task.is_error:
            raise await self._fault("reset")
        return Observation(role="user", text=_told(task, "observation", str))

    async def step(self, action: Action) -> StepResult:
        """Take one action; after the end, an error that repeats the last reward."""
        if self._last is not None:
            return over_result(action, self._last)
        _, toolset = self._live()
        error = self._refused(action)
        if error is not None:
            return malformed_result(action, error)
        if isinstance(action, Reply):
            answer = await toolset.call(ToolCall(name=FINISH_TURN.name, arguments={"message": action.text}))
        else:
            answer = await toolset.call(action)
        observation = Observation(
            role="tool" if isinstance(action, ToolCall) else "user",
            text=_told(answer, "observation", str),
            call_id=action.id if isinstance(action, ToolCall) else None,
            tools=new_tools(answer.data or {}),
        )
        if observation.tools:
            self._known += observation.tools
            self._validator = ArgumentValidator(self._known)
        if _told(answer, "over", bool):
            return await self._ended(observation)
        info = (await self._report()).transcript[-1].info
        return StepResult(observation=observation, reward=0.0, terminated=False, truncated=False, info=info)

    async def solution(self) -> tuple[Action, ...]:
        """The gold actions of the instance just reset, computed apart: privileged."""
        created, _ = self._live()
        async with await self._sandbox.open(self._spec) as env:
            await env.reset(created.seed or 0)
            return await env.solution()

    async def aclose(self) -> None:
        """Hang up and end the episode."""
        self._closed = True
        await self._end()

    def _live(self) -> tuple[EpisodeCreated, McpToolset]:
        if self._created is None or self._toolset is None:
            raise OrderError("the episode is closed" if self._closed else "call reset(seed) first")
        return self._created, self._toolset

    async def _end(self) -> None:
        toolset, self._toolset = self._toolset, None
        created, self._created = self._created, None
        try:
            if toolset is not None:
                await toolset.aclose()
        finally:
            if created is not None:
                await self._control.end(created.id)

    def _refused(self, action: Action) -> CallError | None:
        """What is answered here because it cannot go over the wire, or names a tool of the server's own."""
        if isinstance(action, Reply):
            return check_reply(action.text)
        error = self._validator.check(action)
        if error is None or error.kind in _NOT_SENT or not isinstance(action.arguments, Mapping):
            return error
        return None

    async def _ended(self, observation: Observation) -> StepResult:
        report = await self._report()
        if report.outcome not in (EpisodeOutcome.SCORED, EpisodeOutcome.AGENT_ERROR):
            raise await self._fault("step")
        scored = report.outcome is EpisodeOutcome.SCORED
        result = StepResult(
            observation=observation,
            reward=report.reward or 0.0,
            terminated=scored,
            truncated=not scored,
            info=report.transcript[-1].info if report.transcript else {},
        )
        self._last = result
        return result

    async def _report(self) -> EpisodeReport:
        created, _ = self._live()
        report = await self._control.report(created.id, last=1)
        if report is None:
            raise HostFault(FaultKind.HOST_FAULT, "step", "the server has no more of this episode; it was reaped")
        return report

    async def _fault(self, phase: str) -> SandboxFault:
        """Why the episode failed, as the control plane tells it."""
        report = await self._report()
        return read_fault(report.fault, phase, environments=report.outcome is EpisodeOutcome.ENVIRONMENT_FAULT)


class RemoteEpisodes:
    """What plays need of a sandbox, with every episode behind a URL of its own.

    Args:
        control: of the server that has the episodes, on this machine or another.
        sandbox: where gold actions are computed, which no episode URL tells.
        offer: puts a spec before the server; without it the server plays only what it was started with.
        seconds: wall-clock limit of each request.
    """

    def __init__(
        self,
        control: EpisodeControl,
        sandbox: Sandbox,
        *,
        offer: Callable[[EnvironmentSpec], None] | None = None,
        seconds: float = 120.0,
    ) -> None:
        self.control = control
        self._sandbox, self._offer, self._seconds = sandbox, offer, seconds

    async def open(self, spec: EnvironmentSpec) -> RemoteEpisode:
        """An episode of `spec`, not reset yet; a source that cannot be loaded is found out by `reset`."""
        if self._offer is not None:
            self._offer(spec)
        return RemoteEpisode(self.control, spec, self._sandbox, seconds=self._seconds)


@asynccontextmanager
async def open_remote_episodes(
    sandbox: Sandbox, *, settings: HttpSettings | None = None, seconds: float = 120.0
) -> AsyncIterator[RemoteEpisodes]:
    """Serve `sandbox` over HTTP on this machine, and play over MCP what is opened here.

    Args:
        sandbox: runs the environments; stays open.
        settings: of the server.
        seconds: wall-clock limit of each request.
    """
    async with serve_http((), sandbox, settings=settings or _FOR_OURSELVES) as server:
        yield RemoteEpisodes(_OwnServer(server), sandbox, offer=server.offer, seconds=seconds)


class _OwnServer:
    """The control plane of a server in this process, without a wire."""

    def __init__(self, server: HttpServer) -> None:
        self.create, self.end, self._server = server.create, server.end, server

    async def report(self, identity: str, *, last: int | None = None) -> EpisodeReport | None:
        return self._server.report(identity)


def _told(answer: ToolAnswer, name: str, kind: type) -> Any:
    value = (answer.data or {}).get(name)
    if not isinstance(value, kind):
        raise HostFault(FaultKind.PROTOCOL, "step", f"an answer without {name}: {answer.text[:200]!r}")
    return value
