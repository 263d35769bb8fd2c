"""A blocking face of the sandbox, and of `run_code`, for scripts that know nothing of event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar

from spade_environments.env import EnvironmentDescription, EpisodeEnv
from spade_environments.sandbox import SandboxSettings, jail, open_sandbox
from spade_environments.sandbox.code import DEFAULT_MEMORY, DEFAULT_TIMEOUT, open_code_runner
from spade_environments.sandbox.code_settings import CodeSettings
from spade_environments.sandbox.execution import Execution
from spade_environments.sandbox.jail import JailLimits
from spade_environments.spec import EnvironmentSpec
from spade_environments.types import Action, Observation, StepResult, ToolSpec

__all__ = ["SyncCodeRunner", "SyncEpisode", "SyncSandbox", "run_code", "run_jailed"]

T = TypeVar("T")


class _LoopThread:
    """Something asynchronous, opened on an event loop of its own in one background thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox", daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def enter(self, opening: AbstractAsyncContextManager[T]) -> T:
        """Open it; nothing is left where that fails."""
        try:
            return self.run(self._stack.enter_async_context(opening))
        except BaseException:
            self._end()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work` to be done on the loop.

        Raises:
            RuntimeError: after `close`, or on the loop's own thread, which would wait for itself.
        """
        told = ""
        if not self.is_open:
            told = "it is closed; open another one"
        elif threading.current_thread() is self._thread:
            told = "the blocking face was called on its own event loop; await the asynchronous one there"
        if told:
            work.close()
            raise RuntimeError(told)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End every process and the thread."""
        if self.is_open:
            try:
                self.run(self._stack.aclose())
            finally:
                self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _OnLoopThread:
    """What lives on a loop thread, and ends with it."""

    _thread: _LoopThread

    def close(self) -> None:
        """End every process and the thread."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncSandbox(_OnLoopThread):
    """A sandbox on an event loop of its own, in one background thread.

    >>> with SyncSandbox() as sandbox, sandbox.open(spec) as env:  # doctest: +SKIP
    ...     observation = env.reset(seed=0)
    """

    def __init__(self, settings: SandboxSettings | None = None) -> None:
        self._thread = _LoopThread()
        self._sandbox = self._thread.enter(open_sandbox(settings))
        self.level = self._sandbox.level

    def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> SyncEpisode:
        """See `Sandbox.open`."""
        return SyncEpisode(self._thread.run(self._sandbox.open(spec, zygote=zygote)), self._thread)


class SyncCodeRunner(_OnLoopThread):
    """A `CodeRunner` on an event loop of its own, in one background thread.

    >>> with SyncCodeRunner() as runner:                       # doctest: +SKIP
    ...     print(runner.run_code("print(6 * 7)").stdout)
    """

    def __init__(self, settings: CodeSettings | None = None) -> None:
        self._thread = _LoopThread()
        self._runner = self._thread.enter(open_code_runner(settings))
        self.level = self._runner.level

    def run_code(
        self,
        code: str,
        *,
        stdin: str | bytes = "",
        timeout: float = DEFAULT_TIMEOUT,
        memory: int = DEFAULT_MEMORY,
        wall: float | None = None,
    ) -> Execution:
        """See `CodeRunner.run_code`."""
        return self._thread.run(self._runner.run_code(code, stdin=stdin, timeout=timeout, memory=memory, wall=wall))


def run_code(
    code: str,
    *,
    stdin: str | bytes = "",
    timeout: float = DEFAULT_TIMEOUT,
    memory: int = DEFAULT_MEMORY,
    wall: float | None = None,
    settings: CodeSettings | None = None,
) -> Execution:
    """See `spade_environments.sandbox.run_code`; this one blocks."""
    with SyncCodeRunner(settings) as runner:
        return runner.run_code(code, stdin=stdin, timeout=timeout, memory=memory, wall=wall)


def run_jailed(
    argv: Sequence[str | PathLike[str]],
    *,
    readable: Sequence[str | PathLike[str]] = (),
    scratch: str | PathLike[str] | None = None,
    discard: bool = False,
    environment: Mapping[str, str] | None = None,
    stdin: str | bytes = "",
    timeout: float = 60.0,
    memory: int = 1 << 30,
    wall: float | None = None,
    limits: JailLimits | None = None,
) -> Execution:
    """See `spade_environments.sandbox.run_jailed`; this one blocks."""
    work = jail.run_jailed(
        argv, readable=readable, scratch=scratch, discard=discard, environment=environment, stdin=stdin,
        timeout=timeout, memory=memory, wall=wall, limits=limits,
    )  # fmt: skip
    thread = _LoopThread()
    try:
        return thread.run(work)
    finally:
        thread.close()


class SyncEpisode:
    """The methods of `EpisodeEnv`, blocking."""

    def __init__(self, env: EpisodeEnv, thread: _LoopThread) -> None:
        self._env = env
        self._thread = thread

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
        return self._thread.run(self._env.reset(seed))

    def step(self, action: Action) -> StepResult:
        return self._thread.run(self._env.step(action))

    def solution(self) -> tuple[Action, ...]:
        return self._thread.run(self._env.solution())

    def hidden_values(self) -> dict[str, str]:
        return self._thread.run(self._env.hidden_values())

    def close(self) -> None:
        """End the episode; nothing is left to do once its sandbox is closed."""
        if self._thread.is_open:
            self._thread.run(self._env.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
