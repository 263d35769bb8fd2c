"""Code execution on this machine: each program in its own child of a zygote that serves no environment."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from spade_environments.faults import FaultKind, HostFault
from spade_environments.inside.code import TAIL
from spade_environments.inside.lockdown import SETUP_FAILED
from spade_environments.limits import Limits
from spade_environments.sandbox.code_settings import LocalCodeSettings
from spade_environments.sandbox.execution import CodeJob, Execution, ExecutionOutcome
from spade_environments.sandbox.numpy_folder import mentions_numpy
from spade_environments.sandbox.process import Ended, Supervisor, Zygote, ZygoteKind
from spade_environments.sandbox.streams import Streams
from spade_environments.sandbox.verdict import Report, Verdict, verdict
from spade_environments.sandbox.watch import Watch, cpu_seconds, is_asleep, resident_bytes

__all__ = ["LocalCode", "open_local_code"]

_HEADER = 4
_CHANNEL_LIMIT = 16 * TAIL
_START_WALL = 60.0
_REAP_TIMEOUT = 10.0


class _Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a child says of an exception; it is believed only about itself."""

    kind: str
    text: str


class LocalCode:
    """Runs programs; many at once on one event loop, without a thread."""

    def __init__(self, settings: LocalCodeSettings, supervisor: Supervisor) -> None:
        self._limits = settings.limits
        self._supervisor = supervisor
        total = settings.limits.total_memory
        self._watch = Watch(Limits(memory=total, total_memory=total))
        self.level = "D"

    async def run(self, job: CodeJob) -> Execution:
        """Run one program.

        Raises:
            HostFault: zygote or child was lost, or could not be shut in.
        """
        zygote = await self._supervisor.zygote(ZygoteKind(0, mentions_numpy(job.code)))
        with Streams(job.stdin) as streams:
            child = _CodeChild(zygote, job, streams, self._limits.flood, self._watch)
            try:
                ended = await child.ended()
                outcome, error = child.verdict(ended)
            finally:
                child.close()
            if child.level != self.level:
                told = f"a child came up at level {child.level}; the runner is at level {self.level}"
                raise HostFault(FaultKind.SANDBOX_SETUP, "run", told)
            return streams.execution(
                outcome=outcome,
                exit_code=ended.code,
                error=error,
                limit=self._limits.output,
                cpu_seconds=ended.cpu,
                wall_seconds=child.wall(time.monotonic()),
            )

    async def probe(self) -> None:
        """Run nothing in one child, and take its level for the runner's.

        Raises:
            HostFault: it could not be forked or shut in.
        """
        zygote = await self._supervisor.zygote(ZygoteKind(0, False))
        job = CodeJob(code="", stdin=b"", timeout=10.0, wall=_START_WALL, memory=2**28)
        with Streams(b"") as streams:
            child = _CodeChild(zygote, job, streams, 0, self._watch)
            try:
                child.verdict(await child.ended())
            finally:
                child.close()
        self.level = child.level

    def close(self) -> None:
        """Stop watching; the supervisor ends the children."""
        self._watch.close()


class _CodeChild:
    """One forked child: its program goes in once it is shut in, a report comes out, and its end comes by the zygote."""

    def __init__(self, zygote: Zygote, job: CodeJob, streams: Streams, flood: int, watch: Watch) -> None:
        self._loop = asyncio.get_running_loop()
        self._zygote, self._job, self._flood, self._watch = zygote, job, flood, watch
        self._stopped: tuple[FaultKind, str] | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._received = bytearray()
        code = job.code.encode("utf-8", "surrogatepass")
        self._unsent = memoryview(len(code).to_bytes(_HEADER, "big") + code)
        self.level = ""
        self.busy = True
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._started, self._stalled = time.monotonic(), watch.stalled
        self._loop.add_reader(self._socket.fileno(), self._read)
        limits = {"memory": job.memory, "cpu": math.ceil(1.5 * job.timeout) + 1, "flood": flood}
        self._number, self._process = zygote.fork(theirs, *streams.copies(), **limits)
        watch.add(self)

    async def ended(self) -> Ended:
        """Wait for its end, by its own doing or by a limit."""
        return await asyncio.shield(self._process.ended)

    def wall(self, now: float) -> float:
        """Seconds since the start, less those in which the host stood still."""
        return max(0.0, now - self._started - (self._watch.stalled - self._stalled))

    def resident(self) -> int:
        pid = self._process.pid
        return 0 if pid is None else max(0, resident_bytes(pid) - self._zygote.resident)

    def due(self, now: float) -> tuple[FaultKind, str] | None:
        pid = self._process.pid
        if pid is not None and cpu_seconds(pid) > self._job.timeout:
            return FaultKind.TIMEOUT_CPU, f"more than {self._job.timeout:g} s of CPU"
        limit = self._job.wall if self.level else _START_WALL
        if self.wall(now) <= limit:
            return None
        if self.level and pid is not None and is_asleep(pid):
            return FaultKind.TIMEOUT_WALL, f"no end in {limit:g} s, asleep"
        return FaultKind.HOST_FAULT, f"no end in {limit:g} s on a busy machine"

    def stop(self, kind: FaultKind, detail: str) -> None:
        """SIGKILL, for the reason given; the first reason stays."""
        if self._stopped is None:
            self._stopped = (kind, detail)
            self._giving_up = self._loop.call_later(_REAP_TIMEOUT, self._give_up)
        self._zygote.kill(self._number)

    def _give_up(self) -> None:
        """The zygote does not tell of the end that it was asked for."""
        with contextlib.suppress(asyncio.InvalidStateError):
            self._process.ended.set_result(Ended(None))

    def close(self) -> None:
        """Leave nothing behind; a child that still lives is killed, and reaped by its zygote."""
        self._watch.discard(self)
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._socket.fileno() != -1:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
        self._zygote.kill(self._number)

    def verdict(self, ended: Ended) -> Verdict:
        """What its end, and the report that may have come before, say.

        Raises:
            HostFault: it was lost through no fault of the program.
        """
        self._read()
        if self._stopped is not None:
            kind, detail = self._stopped
            if kind is FaultKind.HOST_FAULT:
                raise HostFault(kind, "run", detail)
            return Verdict(ExecutionOutcome(kind.value), detail)
        if ended.code is None:
            raise HostFault(FaultKind.HOST_FAULT, "run", self._process.failure or "the zygote was lost")
        if not self.level:
            told = "a layer was refused" if ended.code == SETUP_FAILED else f"status {ended.code}"
            raise HostFault(FaultKind.SANDBOX_SETUP, "run", f"the child ended before it was shut in ({told})")
        if ended.code == -signal.SIGKILL and ended.cpu < self._job.timeout:  # it can send no signal itself
            told = "the program was killed from outside; the machine may have run out of memory"
            raise HostFault(FaultKind.HOST_FAULT, "run", told)
        return verdict(ended.code, cpu=ended.cpu, timeout=self._job.timeout, flood=self._flood, report=self._report())

    def _report(self) -> Report | None:
        frame = self._received
        if len(frame) < _HEADER or len(frame) - _HEADER != int.from_bytes(frame[:_HEADER], "big"):
            return None
        try:
            told = msgspec.json.decode(frame[_HEADER:], type=_Told)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return Report(told.kind, told.text[-TAIL:])

    def _read(self) -> None:
        if self._socket.fileno() == -1:
            return
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:  # the child has closed its side; its end is told by the zygote
                self._loop.remove_reader(self._socket.fileno())
                return
            self._received += data
            if not self.level and len(self._received) > _HEADER:
                self.level = self._received[_HEADER : _HEADER + 1].decode()
                del self._received[: _HEADER + 1]
                self._send()
            if len(self._received) > _CHANNEL_LIMIT:
                self._loop.remove_reader(self._socket.fileno())
                self.stop(FaultKind.PROTOCOL, "data that was not asked for")
                return

    def _send(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            return  # the child is gone: the zygote says so
        if self._unsent:
            self._loop.add_writer(self._socket.fileno(), self._send)


@asynccontextmanager
async def open_local_code(settings: LocalCodeSettings) -> AsyncIterator[LocalCode]:
    """Start a supervisor and its first zygote; end every process on the way out."""
    options = {"extra_modules": list(settings.extra_modules), "layers": list(settings.layers)}
    supervisor = Supervisor(options, entry="code_zygote")
    backend = LocalCode(settings, supervisor)
    try:
        await backend.probe()
        yield backend
    finally:
        backend.close()
        await supervisor.aclose()
