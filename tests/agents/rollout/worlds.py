"""A tiny environment in memory, and a sandbox that hands it out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spade_environments import (
    EnvironmentFault,
    EnvironmentSpec,
    HostFault,
    Observation,
    Reply,
    Skill,
    StepResult,
    ToolCall,
    ToolSpec,
)
from spade_environments.faults import FaultKind

PUSH = ToolSpec(
    name="push", description="Push.", parameters={"type": "object", "properties": {"to": {"type": "string"}}}
)
PULL = ToolSpec(name="pull", description="Pull.", parameters={"type": "object", "properties": {}})

Step = Callable[["Counter", ToolCall | Reply], StepResult]

ENVIRONMENT_FAULT = EnvironmentFault(FaultKind.CRASH, "step", "boom")
HOST_FAULT = HostFault(FaultKind.HOST_FAULT, "step", "lost")


class Counter:
    """Push to the seed's parity, then reply; the first reply unlocks `pull`, the second ends the episode.

    `faults` maps a moment (`reset`, `step`, `close`) to what happens then: an exception to raise or seconds to sleep.
    """

    tools = (PUSH,)

    def __init__(self, max_turns: int = 6, **faults: Exception | float) -> None:
        self.max_turns = max_turns
        self.faults = faults
        self.closed = 0
        self.replies = 0
        self.actions: list[ToolCall | Reply] = []

    async def reset(self, seed: int) -> Observation:
        await self._moment("reset")
        self.seed = seed
        return Observation(role="user", text=f"push to {seed % 2}")

    async def step(self, action: ToolCall | Reply) -> StepResult:
        await self._moment("step")
        self.actions.append(action)
        if isinstance(action, ToolCall):
            if action.name == "win":
                return self._result("tool", "won", reward=0.5, terminated=True)
            if action.name == "cut":
                return self._result("tool", "cut", truncated=True)
            if action.name != "push":
                return self._result("tool", "Error: unknown tool", error="unknown_tool")
            return self._result("tool", f"pushed to {action.arguments.get('to')}", error="my own words")
        self.replies += 1
        if self.replies == 1:
            return self._result("user", "now pull", tools=(PULL,))
        wanted = f"{self.seed % 2}"
        return self._result("user", "thanks", reward=float(action.text == wanted), terminated=True)

    async def aclose(self) -> None:
        self.closed += 1
        await self._moment("close")

    async def solution(self) -> tuple[ToolCall | Reply, ...]:
        return (
            ToolCall(name="push", arguments={"to": f"{self.seed % 2}"}),
            Reply(text=""),
            Reply(text=f"{self.seed % 2}"),
        )

    async def _moment(self, name: str) -> None:
        fault = self.faults.get(name)
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            await asyncio.sleep(fault)

    def _result(self, role, text, *, reward=0.0, terminated=False, truncated=False, tools=(), **info) -> StepResult:
        observation = Observation(role=role, text=text, tools=tools)
        return StepResult(observation=observation, reward=reward, terminated=terminated, truncated=truncated, info=info)


class MemorySandbox:
    """Opens whatever `make` returns, and remembers it; an exception is raised instead."""

    def __init__(self, make: Callable[[int], Counter | Exception] = lambda number: Counter()) -> None:
        self.make = make
        self.opened: list[Counter] = []
        self.attempts = 0

    async def open(self, spec: EnvironmentSpec) -> Counter:
        self.attempts += 1
        made = self.make(self.attempts - 1)
        if isinstance(made, Exception):
            raise made
        self.opened.append(made)
        return made


SPEC = EnvironmentSpec(name="counter", source="# counter", skill=Skill.API_ORCHESTRATION)
