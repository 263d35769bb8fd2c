"""Code execution in sandboxes of the E2B service: a fresh one for each program, killed when the program has ended."""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import os
import re
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from spade_environments.faults import FaultKind, HostFault
from spade_environments.sandbox.code_settings import E2BCodeSettings
from spade_environments.sandbox.execution import CodeJob, Execution, ExecutionOutcome
from spade_environments.sandbox.verdict import Report, Verdict, verdict

__all__ = ["E2BCode", "open_e2b"]

T = TypeVar("T")
_KEY = "E2B_API_KEY"
_TAIL = 2000
_TRACEBACK = re.compile(r'^(?:Traceback \(most recent call last\):|  File "main\.py", line \d+)$', re.MULTILINE)
_log = logging.getLogger(__name__)

_INTERPRETER = 64 * 1024 * 1024
# Address space of an interpreter before it runs anything.


class _Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the driver tells of the program."""

    code: int
    stopped: str
    cpu: float
    wall: float
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int


class E2BCode:
    """Runs each program in a sandbox of its own, without access to the internet.

    A program that kills the interpreter there cannot be told from a service that fails: it becomes a HostFault.
    """

    level = "remote"

    def __init__(self, settings: E2BCodeSettings, sandbox_class: Any, key: str) -> None:
        self._settings = settings
        self._sandbox_class = sandbox_class
        options = {"api_key": key, "api_url": settings.api_url, "sandbox_url": settings.sandbox_url}
        self._options = {name: value for name, value in options.items() if value}

    async def run(self, job: CodeJob) -> Execution:
        """Run one program.

        Raises:
            HostFault: the service did not answer in time, or not as it should.
        """
        sandbox = await self._call("make a sandbox", self._create(job))
        try:
            mark = secrets.token_hex(16)
            work = sandbox.run_code(
                self._driver(job, mark), timeout=self._run_time(job), request_timeout=self._settings.call_timeout
            )
            found = await self._call("run the program", work, self._run_time(job))
        finally:
            await self._kill(sandbox)
        return self._execution(job, _told("".join(found.logs.stdout), mark, found.error))

    def _run_time(self, job: CodeJob) -> float:
        return job.wall + self._settings.call_timeout

    def _create(self, job: CodeJob) -> Awaitable[Any]:
        lifetime = math.ceil(self._run_time(job) + 2 * self._settings.call_timeout)
        return self._sandbox_class.create(  # type: ignore[no-any-return]
            self._settings.template or None,
            timeout=lifetime,
            allow_internet_access=False,
            request_timeout=self._settings.call_timeout,
            retries=0,
            **self._options,
        )

    async def _call(self, what: str, work: Awaitable[T], seconds: float | None = None) -> T:
        """One call to the service under our own deadline; whatever goes wrong in it is the host's fault."""
        seconds = self._settings.call_timeout if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            told = f"the E2B service did not {what} in {seconds:g} s"
            raise HostFault(FaultKind.HOST_FAULT, "run", told) from error
        except Exception as error:  # the client raises its own, its transport's, and KeyError for a broken line
            refused = type(error).__name__ == "AuthenticationException"
            kind = FaultKind.SANDBOX_SETUP if refused else FaultKind.HOST_FAULT
            told = f"the E2B service did not {what}: {type(error).__name__}: {error}"
            raise HostFault(kind, "run", told) from error

    async def _kill(self, sandbox: Any) -> None:
        try:
            await self._call("kill a sandbox", sandbox.kill(request_timeout=self._settings.call_timeout))
        except HostFault as fault:  # the program has ended, and its lifetime ends the sandbox
            _log.warning("%s; it ends by itself at the end of its lifetime", fault.detail)

    def _driver(self, job: CodeJob, mark: str) -> str:
        limits = self._settings.limits
        told = {
            "mark": mark,
            "code": base64.b64encode(job.code.encode("utf-8", "surrogatepass")).decode(),
            "stdin": base64.b64encode(job.stdin).decode(),
            "timeout": job.timeout,
            "wall": job.wall,
            "output": limits.output,
            "limits": {
                "RLIMIT_AS": job.memory + _INTERPRETER,
                "RLIMIT_CPU": math.ceil(job.timeout) + 1,
                "RLIMIT_FSIZE": limits.flood,
                "RLIMIT_CORE": 0,
            },
        }
        return f"{_source()}\n\nmain({told!r})\n"

    def _execution(self, job: CodeJob, told: _Told) -> Execution:
        limits = self._settings.limits
        stderr = told.stderr.decode("utf-8", "replace")
        if told.stopped:
            seconds = job.timeout if told.stopped == "timeout_cpu" else job.wall
            clock = "CPU" if told.stopped == "timeout_cpu" else "time"
            found = Verdict(ExecutionOutcome(told.stopped), f"more than {seconds:g} s of {clock}")
        else:
            found = verdict(told.code, cpu=told.cpu, timeout=job.timeout, flood=limits.flood, report=_exception(stderr))
        return Execution(
            outcome=found.outcome,
            exit_code=told.code,
            stdout=told.stdout.decode("utf-8", "replace"),
            stderr=stderr,
            stdout_bytes=told.stdout_bytes,
            stderr_bytes=told.stderr_bytes,
            truncated=max(told.stdout_bytes, told.stderr_bytes) > limits.output,
            error=found.error,
            cpu_seconds=told.cpu,
            wall_seconds=told.wall,
        )


@cache
def _source() -> str:
    return Path(__file__).with_name("e2b_driver.py").read_text()


def _told(output: str, mark: str, error: Any) -> _Told:
    parts = output.split(mark)
    if len(parts) != 3:
        told = "the E2B service answered without the program's end" + (
            f": {error.name}: {error.value}" if error else ""
        )
        raise HostFault(FaultKind.HOST_FAULT, "run", told)
    try:
        return msgspec.json.decode(parts[1], type=_Told)
    except (msgspec.MsgspecError, ValueError) as found:
        raise HostFault(FaultKind.HOST_FAULT, "run", f"the program's end cannot be read: {found}") from found


def _exception(stderr: str) -> Report | None:
    """The exception that ended a program, by the traceback that the interpreter wrote."""
    found = list(_TRACEBACK.finditer(stderr))
    if not found:
        return None
    last = stderr.rstrip().rpartition("\n")[2]
    return Report("memory" if last.startswith("MemoryError") else "error", stderr[-_TAIL:])


@asynccontextmanager
async def open_e2b(settings: E2BCodeSettings) -> AsyncIterator[E2BCode]:
    """The service's sandboxes; nothing is asked of it before the first program.

    Raises:
        HostFault: the package or the key is missing.
    """
    try:
        from e2b_code_interpreter import AsyncSandbox
    except ImportError as error:
        told = "the e2b backend needs e2b-code-interpreter, which is not installed: pip install 'spade-agents[sandbox]'"
        raise HostFault(FaultKind.SANDBOX_SETUP, "run", told) from error
    key = settings.api_key or os.environ.get(_KEY, "")
    if not key:
        told = f"the e2b backend needs a key: set {_KEY}, or give api_key in the settings"
        raise HostFault(FaultKind.SANDBOX_SETUP, "run", told)
    yield E2BCode(settings, AsyncSandbox, key)
