"""EpisodeEnv: one live episode as agents, rollout and the certificate see it, over whatever runs its code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

from spade_environments import wire
from spade_environments.faults import SandboxFault
from spade_environments.limits import Limits
from spade_environments.toolbox import Toolbox, toolbox_of
from spade_environments.types import Action, Observation, Reply, StepResult, ToolCall, ToolSpec
from spade_environments.validation import CallError, check_reply, clean_text

__all__ = ["Backend", "EnvironmentDescription", "EpisodeEnv", "OrderError"]

R = TypeVar("R")


class OrderError(RuntimeError):
    """A method out of order: `step`, `solution` or `hidden_values` before `reset`, or anything after `aclose`."""


class Backend(Protocol):
    """What runs an episode's code and answers its requests."""

    async def request(self, operation: str, payload: dict[str, Any], reply: type[R]) -> R: ...

    async def refuse(self, detail: str) -> SandboxFault: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDescription:
    """What an environment's class declares; privileged: locked tools and hidden names stand in it.

    Attributes:
        base: `text` (TextEnv) or `tool` (ToolEnv).
        class_name: the designed class.
        tools: all tools, the locked ones too.
        max_turns: assistant messages an episode may have, 1 to 25.
        observability: `full` or `partial`.
        hidden: dotted paths of what must not show at the start.
    """

    base: Literal["text", "tool"]
    class_name: str
    tools: tuple[ToolSpec, ...]
    max_turns: int
    observability: Literal["full", "partial"]
    hidden: tuple[str, ...]


class EpisodeEnv:
    """The `Env` Protocol over a backend; also an async context manager that closes itself.

    Malformed calls are answered here as tool errors and never reach the designed code. A second `reset` takes a fresh
    backend, so that nothing of one episode is left in the next. Not for two tasks at once.
    """

    def __init__(
        self,
        backend: Backend,
        description: EnvironmentDescription,
        toolbox: Toolbox,
        limits: Limits,
        reopen: Callable[[], Awaitable[Backend]],
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._reopen = reopen
        self.description = description
        self._specs = toolbox.by_name
        self._validator = toolbox.validator
        self._tools: tuple[ToolSpec, ...] = description.tools
        self._available: list[str] = []
        self._used = self._running = self._closed = False
        self._last: StepResult | None = None

    @classmethod
    async def open(cls, source: str, limits: Limits, connect: Callable[[], Awaitable[Backend]]) -> Self:
        """Load `source` in a fresh backend.

        Raises:
            EnvironmentFault: the source was refused, or broke a limit while it was loaded.
            HostFault: no backend could be had.
        """
        backend = await connect()
        description, toolbox = await _load(backend, source)

        async def reopen() -> Backend:
            fresh = await connect()
            await _load(fresh, source)
            return fresh

        return cls(backend, description, toolbox, limits, reopen)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._tools

    @property
    def max_turns(self) -> int:
        return self.description.max_turns

    async def reset(self, seed: int, *, fresh: bool = True) -> Observation:
        """Begin the instance of `seed`; unless `fresh`, in the process of the episode before it.

        The certificate alone asks for that: it saves forks and shows what an episode leaves behind. The limits of the
        first episode then hold for all of them together.
        """
        self._running, self._last = False, None
        if self._closed:
            raise OrderError("the episode is closed; open another one")
        if self._used and fresh:
            await self._backend.aclose()
            self._backend = await self._reopen()
        self._used = True
        reply = await self._backend.request("reset", {"seed": seed}, wire.ResetReply)
        try:
            wire.decode_info(reply.info)
            self._tools = self._named(reply.tools)
            first = Observation(role="user", text=self._readable(reply.observation))
        except wire.WireError as broken:
            raise await self._backend.refuse(str(broken)) from broken
        self._available = [tool.name for tool in self._tools]
        self._running = True
        return first

    async def step(self, action: Action) -> StepResult:
        """Take one action; after the end, an error that repeats the last reward.

        Raises:
            OrderError: before `reset` or after `aclose`.
        """
        if self._last is not None:
            return _after_the_end(action, self._last)
        if not self._running:
            self._require_running("step")
        call_id: str | None = None
        if isinstance(action, ToolCall):
            call_id, error = action.id, self._validator.check(action, self._available)
        elif isinstance(action, Reply):
            error = check_reply(action.text)
        else:
            raise TypeError(f"an action is a ToolCall or a Reply, not {type(action).__name__}")
        if error is not None:
            return _malformed(action, error)
        reply = await self._backend.request("step", _payload(action), wire.StepReply)
        try:
            return self._result(reply, call_id)
        except wire.WireError as broken:
            raise await self._backend.refuse(str(broken)) from broken

    async def solution(self) -> tuple[Action, ...]:
        """The gold actions of the instance just reset: privileged.

        Raises:
            OrderError: before `reset` or after `aclose`.
        """
        self._require_running("solution")
        reply = await self._backend.request("solution", {}, wire.SolutionReply)
        return tuple([await self._gold(number, action) for number, action in enumerate(reply.actions)])

    async def hidden_values(self) -> dict[str, str]:
        """What `hidden` names, as text: privileged.

        Raises:
            OrderError: before `reset` or after `aclose`.
        """
        self._require_running("hidden_values")
        return (await self._backend.request("hidden_values", {}, wire.HiddenReply)).values

    async def aclose(self) -> None:
        self._running, self._closed, self._last = False, True, None
        await self._backend.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _require_running(self, method: str) -> None:
        if not self._running:
            told = "the episode is closed; open another one" if self._closed else f"call reset(seed) before {method}"
            raise OrderError(told)

    def _result(self, reply: wire.StepReply, call_id: str | None) -> StepResult:
        """A reply as the agent's side sees it.

        Raises:
            WireError: it holds what the protocol does not allow.
        """
        tools = self._unlocked(reply.unlocked) if reply.unlocked else ()
        observation = _observation(reply.role, self._readable(reply.observation), call_id, tools)
        result = _step_result(observation, reply, wire.decode_info(reply.info))
        if reply.terminated or reply.truncated:
            self._last = result
        return result

    def _unlocked(self, names: list[str]) -> tuple[ToolSpec, ...]:
        """Those that are new: a program may name the same tool as often as it likes, and unlock nothing by it."""
        found = tuple(tool for tool in self._named(names) if tool.name not in self._available)
        self._available += [tool.name for tool in found]
        return found

    async def _gold(self, number: int, action: wire.ActionReply) -> Action:
        if action.name is not None and action.arguments is not None and action.text is None:
            return ToolCall(name=action.name, arguments=action.arguments, id=f"gold-{number}")
        if action.text is not None and action.name is None and action.arguments is None:
            return Reply(text=action.text)
        raise await self._backend.refuse("a gold action is neither a call nor a reply")

    def _readable(self, text: str) -> str:
        if len(text) > self._limits.observation:
            raise wire.WireError(f"an observation of {len(text)} characters; at most {self._limits.observation}")
        return text if text.isprintable() else clean_text(text)

    def _named(self, names: list[str]) -> tuple[ToolSpec, ...]:
        """Each of them once."""
        unknown = [name for name in names if name not in self._specs]
        if unknown:
            raise wire.WireError(f"the tool {unknown[0][:80]!r} was not declared")
        return tuple(self._specs[name] for name in dict.fromkeys(names))


# The two values of every step are put together field by field: the `__init__` of a frozen dataclass, which sets each
# field by its name, takes three times as long, and a step of a crowd costs the host little more than that.
_new = object.__new__
_set_role, _set_text, _set_call_id, _set_tools = (
    vars(Observation)[name].__set__ for name in ("role", "text", "call_id", "tools")
)
_set_observation, _set_reward, _set_terminated, _set_truncated, _set_info = (
    vars(StepResult)[name].__set__ for name in ("observation", "reward", "terminated", "truncated", "info")
)


def _observation(
    role: Literal["tool", "user"], text: str, call_id: str | None, tools: tuple[ToolSpec, ...]
) -> Observation:
    made = _new(Observation)
    _set_role(made, role)
    _set_text(made, text)
    _set_call_id(made, call_id)
    _set_tools(made, tools)
    return made


def _step_result(observation: Observation, reply: wire.StepReply, info: dict[str, Any]) -> StepResult:
    made = _new(StepResult)
    _set_observation(made, observation)
    _set_reward(made, reply.reward)
    _set_terminated(made, reply.terminated)
    _set_truncated(made, reply.truncated)
    _set_info(made, info)
    return made


async def _load(backend: Backend, source: str) -> tuple[EnvironmentDescription, Toolbox]:
    try:
        found = await backend.request("load", {"source": source}, wire.Described)
        toolbox = toolbox_of(found.tools)
    except wire.WireError as error:
        raise await backend.refuse(str(error)) from error
    except BaseException:
        await backend.aclose()
        raise
    description = EnvironmentDescription(
        base=found.base,
        class_name=found.class_name,
        tools=toolbox.tools,
        max_turns=found.max_turns,
        observability=found.observability,
        hidden=tuple(found.hidden),
    )
    return description, toolbox


def _payload(action: Action) -> dict[str, Any]:
    """What the child is told of a checked action."""
    if isinstance(action, ToolCall):
        return {"name": action.name, "arguments": dict(action.arguments), "text": None}
    return {"name": None, "arguments": None, "text": action.text}


def _malformed(action: Action, error: CallError) -> StepResult:
    """What the agent reads instead of a result; nothing has happened in the environment."""
    observation = Observation(
        role="tool" if isinstance(action, ToolCall) else "user",
        text=f"Error: {error.text}.",
        call_id=action.id if isinstance(action, ToolCall) else None,
    )
    return StepResult(
        observation=observation, reward=0.0, terminated=False, truncated=False, info={"error": error.kind.value}
    )


def _after_the_end(action: Action, last: StepResult) -> StepResult:
    call = isinstance(action, ToolCall)
    observation = Observation(
        role="tool" if call else "user",
        text="Error: episode over.",
        call_id=action.id if isinstance(action, ToolCall) else None,
    )
    return StepResult(
        observation=observation, reward=last.reward, terminated=last.terminated, truncated=last.truncated,
        info={"error": "episode_over"},
    )  # fmt: skip
