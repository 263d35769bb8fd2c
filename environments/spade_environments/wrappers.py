"""Wrappers over the `Env` Protocol: time limit, order enforcing, hint; each is an `Env` itself."""

from __future__ import annotations

from dataclasses import replace

from spade_environments.env import OrderError
from spade_environments.types import Action, Env, Observation, StepResult, ToolSpec

__all__ = ["OrderEnforcing", "TimeLimit", "WithHint", "Wrapper"]


class Wrapper:
    """Passes everything on to `env`; subclasses change what they name."""

    def __init__(self, env: Env) -> None:
        self.env = env

    @property
    def unwrapped(self) -> Env:
        """The innermost environment."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self.env.tools

    @property
    def max_turns(self) -> int:
        return self.env.max_turns

    async def reset(self, seed: int) -> Observation:
        return await self.env.reset(seed)

    async def step(self, action: Action) -> StepResult:
        return await self.env.step(action)

    async def aclose(self) -> None:
        await self.env.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env!r}>"


class TimeLimit(Wrapper):
    """Truncates an episode that has not terminated after `max_turns` actions.

    One action is one turn here; a rollout that counts messages of several calls keeps the count itself.

    Args:
        env: what to wrap.
        max_turns: the limit, or `None` for the environment's own.
    """

    def __init__(self, env: Env, max_turns: int | None = None) -> None:
        super().__init__(env)
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"max_turns is {max_turns}; wanted at least 1")
        self._limit = max_turns
        self._taken = 0

    @property
    def max_turns(self) -> int:
        return self.env.max_turns if self._limit is None else self._limit

    async def reset(self, seed: int) -> Observation:
        self._taken = 0
        return await self.env.reset(seed)

    async def step(self, action: Action) -> StepResult:
        result = await self.env.step(action)
        self._taken += 1
        if self._taken < self.max_turns or result.terminated:
            return result
        return replace(result, truncated=True)


class OrderEnforcing(Wrapper):
    """Refuses `step` before the first `reset`, and everything but a second `aclose` after the first."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._has_reset = self._closed = False

    @property
    def has_reset(self) -> bool:
        """Whether `reset` has been called."""
        return self._has_reset

    async def reset(self, seed: int) -> Observation:
        if self._closed:
            raise OrderError("reset after aclose; open another environment")
        self._has_reset = True
        return await self.env.reset(seed)

    async def step(self, action: Action) -> StepResult:
        if self._closed or not self._has_reset:
            raise OrderError("step after aclose" if self._closed else "step before reset; call reset(seed) first")
        return await self.env.step(action)

    async def aclose(self) -> None:
        self._closed = True
        await self.env.aclose()


class WithHint(Wrapper):
    """Adds a hint below the first observation, once: the hinted arm of a regret."""

    def __init__(self, env: Env, hint: str) -> None:
        super().__init__(env)
        self.hint = hint

    async def reset(self, seed: int) -> Observation:
        first = await self.env.reset(seed)
        return replace(first, text=f"{first.text}\nhint: {self.hint}")
