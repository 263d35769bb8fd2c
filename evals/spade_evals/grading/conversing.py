"""A jailed process that is spoken with: lines of JSON over named pipes in its scratch folder, for as long as it lives.

`run_jailed` gives a program its whole input at once. What has to be asked in between, such as a harness that wants the
model's next message, talks over pipes that both sides can open and nothing else can.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from spade_agents.errors import InfrastructureError
from spade_environments import HostFault
from spade_environments.sandbox.execution import Execution
from spade_environments.sandbox.jail import JailLimits, python_folders, run_jailed

__all__ = ["MAIN", "Channel", "JailedScript"]

MAIN = "main"
"""The channel that a script opens when it starts; its first line says `{"ready": true}`."""

_MIB = 1024 * 1024
_LONGEST_LINE = 256 * _MIB
_FOREVER = 1e7
_LIMITS = JailLimits(processes=1024)
_END_SECONDS = 10.0


class Channel:
    """Two named pipes: `NAME.out`, which the process writes, and `NAME.in`, which it reads.

    The process may open them in any order; `close` is told to it as the end of its input.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._paths = (folder / f"{name}.out", folder / f"{name}.in")
        for path in self._paths:
            os.mkfifo(path)
            # The process is another user where root starts it; nobody else can enter the folder.
            path.chmod(0o666)
        self._reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        self._transport: asyncio.ReadTransport | None = None
        self._sending = asyncio.Lock()
        # Open for reading too: so it opens before the process has, and a process that is gone is no SIGPIPE.
        self._writing: int | None = os.open(self._paths[1], os.O_RDWR | os.O_NONBLOCK)
        with contextlib.suppress(OSError):  # over what one user's pipes may hold: then it stays as small as it is
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _MIB)  # a process that is asked much at once sees it at once

    async def open(self) -> Self:
        """Begin to read."""
        reading = os.fdopen(os.open(self._paths[0], os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), reading
        )
        return self

    async def send(self, *rows: Mapping[str, Any]) -> None:
        """Write lines; waits while the process does not read them."""
        left = memoryview("".join(json.dumps(row) + "\n" for row in rows).encode())
        async with self._sending:
            while left and self._writing is not None:
                try:
                    left = left[os.write(self._writing, left) :]
                except BlockingIOError:
                    await self._writable(self._writing)

    async def receive(self) -> dict[str, Any] | None:
        """The next line; `None` once the process has closed its end."""
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            return None
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InfrastructureError(f"a jailed process said {line[:80]!r}, which is no line of JSON")
        return row

    def close(self) -> None:
        """Hang up and remove the pipes."""
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None
        if self._transport is not None:
            self._transport.close()
        for path in self._paths:
            path.unlink(missing_ok=True)

    async def _writable(self, descriptor: int) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(descriptor, event.set)
        try:
            await event.wait()
        finally:
            loop.remove_writer(descriptor)


@dataclass(slots=True, kw_only=True)
class JailedScript:
    """One script in a jail, started when it is first needed and again where it was lost; belongs to one event loop.

    Attributes:
        script: a Python file that opens the channel `MAIN` and says that it is ready.
        python: the interpreter, whose environment holds the libraries.
        arguments: of the script.
        environment: of the process.
        memory: bytes, of each process; and in sum of all that the script forks, where pages that they share count for
            each, so that it must be ample.
        start_seconds: wall time until it must have said that it is ready.
    """

    script: Path
    python: Path = field(default_factory=lambda: Path(sys.executable))
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    readable: Sequence[Path] = ()
    memory: int = 65_536 * _MIB
    start_seconds: float = 600.0
    _folder: Path | None = None
    _task: asyncio.Task[Execution] | None = None
    _main: Channel | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _opened: int = 0

    async def main(self) -> Channel:
        """The channel `MAIN` of a process that is alive.

        Raises:
            InfrastructureError: it could not be started.
        """
        async with self._lock:
            if self._task is not None and self._task.done():
                await self.aclose()
            if self._main is None:
                await self._start()
            assert self._main is not None
            return self._main

    async def channel(self) -> tuple[str, Channel]:
        """A further channel, not read yet, and its name, to be told to the process; whoever asked closes it."""
        await self.main()
        assert self._folder is not None
        self._opened += 1
        name = str(self._opened)
        try:
            return name, Channel(self._folder, name)
        except FileNotFoundError as error:  # the folder goes with the process
            raise await self.fault() from error

    async def fault(self) -> InfrastructureError:
        """Why the process is gone, once it is."""
        if self._task is None:
            return InfrastructureError(f"{self.script.name} was ended")
        try:
            ended = await asyncio.shield(self._task)
        except (HostFault, OSError) as error:
            return InfrastructureError(f"{self.script.name} could not be run in a jail: {error}")
        told = (ended.stderr.strip() or ended.error).rsplit("\n", 1)[-1][-300:]
        return InfrastructureError(f"the jailed {self.script.name} ended ({ended.outcome.value}): {told}")

    async def aclose(self) -> None:
        """End the process and leave nothing of it."""
        if self._main is not None:
            self._main.close()
            self._main = None
        if self._task is not None:
            with contextlib.suppress(TimeoutError, HostFault, OSError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._task
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._folder is not None:
            from spade_environments.inside.scratch import remove

            if self._folder.exists():  # where no jail was had
                remove(self._folder)
            self._folder = None

    async def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="spade-jailed-"))
        main = await Channel(self._folder, MAIN).open()
        self._main = main
        self._task = asyncio.create_task(
            run_jailed(
                [self.python, "-I", self.script, *self.arguments],
                readable=[*python_folders(self.python), self.script, *self.readable],
                scratch=self._folder,
                discard=True,
                environment={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "HOME": ".", **self.environment},
                timeout=_FOREVER,
                wall=_FOREVER,
                memory=self.memory,
                limits=_LIMITS,
            )
        )
        ready = asyncio.create_task(main.receive())
        await asyncio.wait((ready, self._task), return_when=asyncio.FIRST_COMPLETED, timeout=self.start_seconds)
        if ready.done() and ready.result():
            return
        ready.cancel()
        fault = (
            await self.fault()
            if self._task.done()
            else InfrastructureError(f"{self.script.name} was not ready in {self.start_seconds:g} s")
        )
        await self.aclose()
        raise fault
