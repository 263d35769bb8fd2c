"""A blocking face of the sandbox, for scripts and for judges that know nothing of event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from spade_environments.env import EnvironmentDescription, EpisodeEnv
from spade_environments.sandbox import SandboxSettings, open_sandbox
from spade_environments.spec import EnvironmentSpec
from spade_environments.types import Action, Observation, StepResult, ToolSpec

__all__ = ["SyncEpisode", "SyncSandbox"]

T = TypeVar("T")


class SyncSandbox:
    """A sandbox on an event loop of its own, in one background thread.

    >>> with SyncSandbox() as sandbox, sandbox.open(spec) as env:  # doctest: +SKIP
    ...     observation = env.reset(seed=0)
    """

    def __init__(self, settings: SandboxSettings | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox", daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        try:
            self._sandbox = self._run(self._stack.enter_async_context(open_sandbox(settings)))
        except BaseException:
            self._end()
            raise
        self.level = self._sandbox.level

    def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> SyncEpisode:
        """See `Sandbox.open`."""
        return SyncEpisode(self._run(self._sandbox.open(spec, zygote=zygote)), self)

    def close(self) -> None:
        """End every process and the thread."""
        if self._thread.is_alive():
            try:
                self._run(self._stack.aclose())
            finally:
                self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncEpisode:
    """The methods of `EpisodeEnv`, blocking."""

    def __init__(self, env: EpisodeEnv, sandbox: SyncSandbox) -> None:
        self._env = env
        self._sandbox = sandbox

    @property
    def description(self) -> EnvironmentDescription:
        return self._env.description

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._env.tools

    @property
    def max_turns(self) -> int:
        return self._env.max_turns

    def reset(self, seed: int) -> Observation:
        return self._sandbox._run(self._env.reset(seed))

    def step(self, action: Action) -> StepResult:
        return self._sandbox._run(self._env.step(action))

    def solution(self) -> tuple[Action, ...]:
        return self._sandbox._run(self._env.solution())

    def hidden_values(self) -> dict[str, str]:
        return self._sandbox._run(self._env.hidden_values())

    def close(self) -> None:
        self._sandbox._run(self._env.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
