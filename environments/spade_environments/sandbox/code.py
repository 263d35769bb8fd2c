"""Running Python programs for agents and for graders: `run_code`, and the runner that runs many."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from spade_environments.faults import FaultKind, HostFault
from spade_environments.sandbox.code_settings import CodeSettings, E2BCodeSettings, LocalCodeSettings
from spade_environments.sandbox.execution import CodeJob, Execution, ExecutionOutcome

__all__ = ["DEFAULT_MEMORY", "DEFAULT_TIMEOUT", "CodeRunner", "open_code_runner", "run_code"]

DEFAULT_TIMEOUT = 5.0
"""CPU seconds of one program."""
DEFAULT_MEMORY = 256 * 1024 * 1024
"""Bytes of one program, beyond what the interpreter starts with."""
_LEAST_MEMORY = 1024 * 1024


class CodeBackend(Protocol):
    """What runs one program.

    Attributes:
        level: of the sandbox, A to D; `remote` where it is somewhere else.
    """

    level: str

    async def run(self, job: CodeJob) -> Execution: ...


class CodeRunner:
    """Runs programs, many at once on one event loop; nothing of one is left for the next.

    Attributes:
        level: of the sandbox, A to D; `remote` where it is somewhere else.
    """

    def __init__(self, backend: CodeBackend, settings: CodeSettings) -> None:
        import asyncio  # light commands, which run no program, do without it

        self._backend = backend
        self._limits = settings.limits
        self._turns = asyncio.Semaphore(settings.parallel)
        self.level = backend.level

    async def run_code(
        self,
        code: str,
        *,
        stdin: str | bytes = "",
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109 (CPU time of the program, not a time to wait)
        memory: int = DEFAULT_MEMORY,
        wall: float | None = None,
    ) -> Execution:
        """Run a program as `__main__` and wait for its end.

        It finds its input on `sys.stdin` (or descriptor 0), may import what is harmless of the standard library, and
        numpy; it can open no file, make no socket, process or thread (a thread that it starts runs to its end at
        once). What it prints is kept, up to the limits of the settings; what it had not yet flushed when a limit
        ended it is lost.

        Args:
            code: Python source.
            stdin: its whole input.
            timeout: CPU seconds; waiting costs none.
            memory: bytes beyond what the interpreter starts with, at least 1 MiB.
            wall: wall seconds; ten times `timeout`, and 10 or more, unless given.

        Returns:
            What came of it. Whatever the program does is told here and never raised.

        Raises:
            HostFault: the sandbox failed twice; the program is not to blame.
            ValueError: a limit that is not positive, or more input than the settings allow.
        """
        size = len(code.encode("utf-8", "surrogatepass"))
        if size > self._limits.code:
            return _refused(f"the program is {size} bytes; at most {self._limits.code}")
        job = self._job(code, stdin, timeout, memory, wall)
        async with self._turns:
            try:
                return await self._backend.run(job)
            except HostFault as fault:
                if fault.kind is not FaultKind.HOST_FAULT:
                    raise
                return await self._backend.run(job)  # what the host lost is run again, once

    def _job(self, code: str, stdin: str | bytes, timeout: float, memory: int, wall: float | None) -> CodeJob:
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        if len(data) > self._limits.stdin:
            raise ValueError(f"stdin is {len(data)} bytes; at most {self._limits.stdin} (the setting limits.stdin)")
        wall = self._limits.wall(timeout) if wall is None else wall
        for name, value in (("timeout", timeout), ("wall", wall)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}; give a finite number of seconds above 0")
        if memory < _LEAST_MEMORY:
            raise ValueError(f"memory is {memory} bytes; give at least {_LEAST_MEMORY} (it is counted in bytes)")
        return CodeJob(code=code, stdin=data, timeout=timeout, wall=wall, memory=memory)


def _refused(told: str) -> Execution:
    return Execution(
        outcome=ExecutionOutcome.ERROR, exit_code=None, stdout="", stderr="", stdout_bytes=0, stderr_bytes=0,
        truncated=False, error=told, cpu_seconds=0.0, wall_seconds=0.0,
    )  # fmt: skip


def open_code_runner(settings: CodeSettings | None = None) -> AbstractAsyncContextManager[CodeRunner]:
    r"""A runner for `async with`; it belongs to the event loop that entered it.

    Args:
        settings: which backend, under which limits; this machine's own unless given.

    >>> async with open_code_runner() as runner:               # doctest: +SKIP
    ...     found = await runner.run_code("print(sum(map(int, input().split())))", stdin="1 2 3")
    ...     assert found.ok and found.stdout == "6\n"
    """
    return _open(LocalCodeSettings() if settings is None else settings)


@asynccontextmanager
async def _open(settings: CodeSettings) -> AsyncIterator[CodeRunner]:
    # Either backend is imported when it is asked for: one needs Linux, the other a package.
    if isinstance(settings, E2BCodeSettings):
        from spade_environments.sandbox.code_e2b import open_e2b

        opened: AbstractAsyncContextManager[CodeBackend] = open_e2b(settings)
    elif sys.platform != "linux":
        told = f"programs run in a sandbox on Linux only, and this is {sys.platform}; use the e2b backend"
        raise HostFault(FaultKind.SANDBOX_SETUP, "run", told)
    else:
        from spade_environments.sandbox.code_local import open_local_code

        opened = open_local_code(settings)
    async with opened as backend:
        yield CodeRunner(backend, settings)


async def run_code(
    code: str,
    *,
    stdin: str | bytes = "",
    timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109
    memory: int = DEFAULT_MEMORY,
    wall: float | None = None,
    settings: CodeSettings | None = None,
) -> Execution:
    r"""Run one program in a sandbox of its own; see `CodeRunner.run_code`.

    To run many, open one runner: to start a sandbox takes longer than to run a program in it.

    >>> found = await run_code("print(6 * 7)", timeout=2)      # doctest: +SKIP
    >>> found.stdout                                           # doctest: +SKIP
    '42\n'
    """
    async with open_code_runner(settings) as runner:
        return await runner.run_code(code, stdin=stdin, timeout=timeout, memory=memory, wall=wall)
