"""The nouns of an episode: actions, observations, tools, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = ["Action", "Env", "Observation", "Reply", "StepResult", "ToolCall", "ToolSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as an agent sees it.

    Attributes:
        name: what a call names.
        description: one or two sentences.
        parameters: JSON Schema of the arguments; its root is an object.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A structured function call; `id` pairs it with its result within one assistant message."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A message to the user, without a call: hands the turn back."""

    text: str


Action = ToolCall | Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the agent reads next; `tools` are those that this observation unlocks."""

    role: Literal["tool", "user"]
    text: str
    call_id: str | None = None
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Gymnasium's five values; `reward` lies in [0, 1], `info` never reaches the agent's side."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Env(Protocol):
    """A live episode, host side; the code behind it may run in a jailed process.

    `tools` is what the agent may call at the start of the episode: valid after `reset`.
    Every method raises `EnvironmentFault` or `HostFault` (see `faults`).
    """

    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...

    @property
    def max_turns(self) -> int: ...

    async def reset(self, seed: int) -> Observation: ...

    async def step(self, action: Action) -> StepResult: ...

    async def aclose(self) -> None: ...
