"""The sandbox of a machine without the kernel's layers: each episode in an interpreter of its own; level D."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from spade_environments.env import Backend, EpisodeEnv
from spade_environments.faults import EnvironmentFault, FaultKind, HostFault, SandboxFault
from spade_environments.inside.plain import READY
from spade_environments.limits import Limits
from spade_environments.sandbox.numpy_folder import mentions_numpy, numpy_folder
from spade_environments.sandbox.settings import LocalSandboxSettings
from spade_environments.spec import EnvironmentSpec
from spade_environments.wire import Failed, WireError, decode, encode

__all__ = ["PlainSandbox", "open_plain", "silent_end"]

R = TypeVar("R")
_INSIDE = Path(__file__).resolve().parent.parent / "inside"
_FLAGS = ("-S", "-s", "-P", "-B")
_BOOT = (
    "import sys, importlib; from importlib import util; folder, channel, options = sys.argv[1:]; "
    "spec = util.spec_from_file_location('inside', folder + '/__init__.py', submodule_search_locations=[folder]); "
    "sys.modules['inside'] = package = util.module_from_spec(spec); spec.loader.exec_module(package); "
    "importlib.import_module('inside.plain').main(int(channel), options)"
)
_START_WALL = 60.0


class PlainSandbox:
    """Opens episodes, each in a fresh interpreter with an empty environment.

    CPU time cannot be read from outside on every system: an episode's whole budget is kept by the kernel, a single
    request's by its wall limit.
    """

    level = "D"

    def __init__(self, settings: LocalSandboxSettings) -> None:
        self.limits = settings.limits
        self._options = {
            "extra_modules": list(settings.extra_modules),
            "cpu_seconds": settings.limits.kernel_cpu,
        }
        self._children: set[_PlainChild] = set()
        self._closed = False

    async def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> EpisodeEnv:
        """A fresh interpreter with the source of `spec` loaded; `zygote` is its hash seed.

        Raises:
            EnvironmentFault: the source was refused, or broke a limit while it was loaded.
            HostFault: no interpreter could be started.
            ValueError: another hash seed than 0 or 1.
        """
        return await EpisodeEnv.open(spec.source, self.limits, partial(self.backend, spec, zygote=zygote))

    async def backend(self, spec: EnvironmentSpec, *, zygote: int = 0) -> Backend:
        """The interpreter alone, before anything is loaded; as `open`."""
        if zygote not in (0, 1):
            raise ValueError(f"there is no zygote {zygote!r}; use 0 or 1")
        size = len(spec.source.encode(errors="surrogatepass"))
        if size > self.limits.source:
            told = f"the source is {size} bytes; at most {self.limits.source}"
            raise EnvironmentFault(FaultKind.REJECT, "load", told)
        if self._closed:
            raise RuntimeError("the sandbox is closed; open another one")
        folder = numpy_folder() if mentions_numpy(spec.source) else None
        child = _PlainChild(self, json.dumps({**self._options, "numpy_folder": folder}), zygote)
        self._children.add(child)
        await child.start()
        return child

    def forget(self, child: _PlainChild) -> None:
        """`child` has ended."""
        self._children.discard(child)

    async def aclose(self) -> None:
        """End every process, and start no other."""
        self._closed = True
        for child in tuple(self._children):
            await child.aclose()


class _PlainChild:
    """One interpreter and its channel; one request at a time, none after a fault."""

    def __init__(self, sandbox: PlainSandbox, options: str, hash_seed: int) -> None:
        self._sandbox, self._limits = sandbox, sandbox.limits
        self._phase, self._spent, self._asked = "load", 0.0, False
        self._fault: SandboxFault | None = None
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        with theirs:
            command = [sys.executable, *_FLAGS, "-c", _BOOT, str(_INSIDE), str(theirs.fileno()), options]
            try:
                self._process = subprocess.Popen(
                    command, env={"PYTHONHASHSEED": str(hash_seed)}, cwd="/", close_fds=True,
                    pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                self._channel.close()
                raise HostFault(FaultKind.HOST_FAULT, "load", f"no interpreter can be started: {error}") from error

    async def start(self) -> None:
        """Wait until its limits are on.

        Raises:
            HostFault: it ended before.
        """
        if await self._answer(b"", _START_WALL) != READY:
            raise await self._ended(HostFault(FaultKind.SANDBOX_SETUP, "load", "the child did not come up"))

    async def request(self, operation: str, payload: dict[str, Any], reply: type[R]) -> R:
        if self._fault is not None:
            raise self._fault
        self._phase = "solution" if operation == "hidden_values" else operation
        nonce, left = os.urandom(8).hex(), self._limits.episode_wall - self._spent
        if left <= 0:
            told = f"waited more than {self._limits.episode_wall:g} s over the episode"
            raise await self._ended(EnvironmentFault(FaultKind.BUDGET_EPISODE, self._phase, told))
        frame = await self._answer(encode(nonce, operation, payload), min(self._limits.wall(operation), left))
        try:
            found = decode(frame, nonce, reply)
        except WireError as error:
            raise await self.refuse(str(error)) from error
        if isinstance(found, Failed):
            text = found.text[: self._limits.error]
            raise await self._ended(EnvironmentFault(FaultKind(found.kind), self._phase, text))
        return found

    async def refuse(self, detail: str) -> SandboxFault:
        return await self._ended(EnvironmentFault(FaultKind.PROTOCOL, self._phase, detail))

    async def aclose(self) -> None:
        await self._ended(HostFault(FaultKind.HOST_FAULT, "close", "the episode was closed"))

    async def _answer(self, frame: bytes, wall: float) -> bytes:
        if self._asked:
            raise RuntimeError("an episode takes one request at a time")
        self._asked, started = True, time.monotonic()
        try:
            async with asyncio.timeout(wall):
                return await self._exchange(frame)
        except TimeoutError:
            raise await self._ended(None, wall) from None
        except (OSError, EOFError):
            raise await self._ended(None) from None
        except BaseException:
            await self._ended(HostFault(FaultKind.HOST_FAULT, self._phase, "the request was cancelled"))
            raise
        finally:
            self._spent += time.monotonic() - started
            self._asked = False
            if self._fault is not None:
                self._channel.close()

    async def _exchange(self, frame: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._channel, frame)
        size = int.from_bytes(await self._exactly(4), "big")
        if size > self._limits.reply:
            raise await self.refuse(f"a reply of {size} bytes; at most {self._limits.reply}")
        return await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = await asyncio.get_running_loop().sock_recv(self._channel, size - len(found))
            if not more:
                raise EOFError
            found += more
        return found

    async def _ended(self, fault: SandboxFault | None, waited: float = 0.0) -> SandboxFault:
        """The fault that ended the child, which is gone once this returns; the first one stays."""
        if self._fault is None:
            self._fault = fault or HostFault(FaultKind.HOST_FAULT, self._phase, "the child is being ended")
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_RDWR)  # wakes who waits for an answer, and then closes it
            if not self._asked:
                self._channel.close()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)  # and what it has started
            os.kill(self._process.pid, signal.SIGKILL)  # not Popen.kill, which would reap it and lose its CPU time
            _, status, usage = await asyncio.to_thread(os.wait4, self._process.pid, 0)
            self._process.returncode = code = os.waitstatus_to_exitcode(status)
            self._sandbox.forget(self)
            if fault is None:
                cpu = usage.ru_utime + usage.ru_stime
                self._fault = silent_end(code, cpu, waited, self._phase, self._limits)
        return self._fault


def silent_end(code: int, cpu: float, waited: float, phase: str, limits: Limits) -> SandboxFault:
    """The fault of a child that gave no answer.

    Args:
        code: its status, or the negative number of the signal that ended it.
        cpu: CPU seconds of its whole life, all that the system tells.
        waited: seconds until its wall limit was passed; 0 where it ended, or hung up, before.
        phase: what it was asked for.
        limits: of the episode.
    """
    if waited:
        if cpu >= waited / 2:
            return EnvironmentFault(FaultKind.TIMEOUT_CPU, phase, f"{cpu:.1f} s of CPU and no answer")
        return HostFault(FaultKind.HOST_FAULT, phase, f"no answer in {waited:g} s, asleep or on a busy machine")
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu >= limits.episode_cpu):
        return EnvironmentFault(FaultKind.BUDGET_EPISODE, phase, f"more than {limits.episode_cpu:g} s of CPU")
    if code == -signal.SIGKILL:
        return EnvironmentFault(FaultKind.PROTOCOL, phase, "the channel was closed")
    if code >= 0:
        return EnvironmentFault(FaultKind.EXIT, phase, f"the process ended with status {code}")
    return EnvironmentFault(FaultKind.CRASH, phase, f"the process died of signal {-code}")


@asynccontextmanager
async def open_plain(settings: LocalSandboxSettings) -> AsyncIterator[PlainSandbox]:
    """A plain sandbox; every process is ended on the way out."""
    sandbox = PlainSandbox(settings)
    try:
        yield sandbox
    finally:
        await sandbox.aclose()
