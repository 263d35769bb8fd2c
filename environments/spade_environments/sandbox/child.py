"""One episode's child, host side: requests and replies over its channel, its limits, and how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from typing import Any, TypeVar

from spade_environments.faults import EnvironmentFault, FaultKind, HostFault, SandboxFault
from spade_environments.inside.lockdown import SETUP_FAILED
from spade_environments.limits import Limits
from spade_environments.sandbox.process import Ended, Zygote
from spade_environments.sandbox.watch import Watch, cpu_seconds, is_asleep, resident_bytes
from spade_environments.wire import Failed, WireError, decode, encode

__all__ = ["Child"]

R = TypeVar("R")
_HEADER = 4
_CHUNK = 16 * 1024
_REAP_TIMEOUT = 10.0
_START_WALL = 60.0
_PHASES = {"hidden_values": "solution"}


class Child:
    """A forked child and its channel; one request at a time, and none after a fault."""

    def __init__(self, zygote: Zygote, limits: Limits, watch: Watch) -> None:
        self._loop = asyncio.get_running_loop()
        self._zygote, self._limits, self._watch = zygote, limits, watch
        self._phase = "load"
        self._fault: SandboxFault | None = None
        self._stopped: tuple[FaultKind, str] | None = None
        self._ready = False
        self._open = True
        self._buffer = bytearray()
        self._unsent = b""
        self._waiting: asyncio.Future[bytes | None] | None = None
        self._cpu_mark = self._cpu_limit = 0.0
        self._started = self._stalled = self._wall_spent = 0.0
        self._wall_limit = _START_WALL
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._read)
        self._episode, self._process = zygote.fork(theirs)
        watch.add(self)

    def resident(self) -> int:
        """Bytes the child has added to what it shares with its zygote since the fork."""
        pid = self._process.pid
        return 0 if pid is None else max(0, resident_bytes(pid) - self._zygote.resident)

    async def start(self) -> str:
        """Wait until the child is shut in; the level that it has shown to hold.

        Raises:
            HostFault: it could not be forked or shut in.
        """
        level = await self._exchange(b"")
        await self._process.forked.wait()
        return level.decode()

    async def request(self, operation: str, payload: dict[str, Any], reply: type[R]) -> R:
        """Ask the child, within the limits of `operation`.

        Raises:
            EnvironmentFault: the environment broke a limit or the protocol, ended, or raised; the child is gone.
            HostFault: the child was lost through no fault of its own.
        """
        self._phase = _PHASES.get(operation, operation)
        nonce = os.urandom(8).hex()
        self._cpu_limit, self._wall_limit = self._limits.cpu(operation), self._limits.wall(operation)
        frame = await self._exchange(encode(nonce, operation, payload))
        try:
            found = decode(frame, nonce, reply)
        except WireError as error:
            raise await self.refuse(str(error)) from error
        if isinstance(found, Failed):
            self.stop(FaultKind(found.kind), found.text[: self._limits.error])
            raise await self._ended()
        return found

    async def refuse(self, detail: str) -> SandboxFault:
        """End the child for a reply that the protocol does not allow; the fault to raise."""
        self.stop(FaultKind.PROTOCOL, detail)
        return await self._ended()

    def due(self, now: float) -> tuple[FaultKind, str] | None:
        """The limit that has been passed, if one has."""
        pid = self._process.pid
        passed = None if pid is None else self._due_by_cpu(cpu_seconds(pid))
        if passed is not None or self._waiting is None or self._waiting.done():
            return passed
        return self._due_by_wall(self._wall_since_start(now))

    def _wall_since_start(self, now: float) -> float:
        """Seconds since the request, less those in which the host could not have read an answer."""
        return now - self._started - (self._watch.stalled - self._stalled)

    def _due_by_cpu(self, cpu: float) -> tuple[FaultKind, str] | None:
        if cpu > self._limits.episode_cpu:
            return FaultKind.BUDGET_EPISODE, f"{cpu:.1f} s of CPU; at most {self._limits.episode_cpu:g} an episode"
        if cpu - self._cpu_mark > self._cpu_limit > 0:
            return FaultKind.TIMEOUT_CPU, f"more than {self._cpu_limit:g} s of CPU"
        return None

    def _due_by_wall(self, wall: float) -> tuple[FaultKind, str] | None:
        if wall > self._wall_limit:
            pid = self._process.pid
            if self._ready and pid is not None and is_asleep(pid):
                return FaultKind.TIMEOUT_WALL, f"no answer in {self._wall_limit:g} s, asleep"
            return FaultKind.HOST_FAULT, f"no answer in {self._wall_limit:g} s on a busy machine"
        if self._wall_spent + wall > self._limits.episode_wall:
            return FaultKind.BUDGET_EPISODE, f"waited more than {self._limits.episode_wall:g} s over the episode"
        return None

    def stop(self, kind: FaultKind, detail: str) -> None:
        """SIGKILL, for the reason given; the first reason stays."""
        if self._stopped is None:
            self._stopped = (kind, detail)
        self._hang_up()

    async def aclose(self) -> None:
        """Kill the child and wait until it is reaped."""
        if self._fault is None:
            self._fault = HostFault(FaultKind.HOST_FAULT, "close", "the episode was closed")
        self._hang_up()
        await self._reaped()

    async def _exchange(self, frame: bytes) -> bytes:
        """Send a frame (none at the start) and wait for the answer."""
        if self._fault is not None:
            raise self._fault
        if self._waiting is not None:
            raise RuntimeError("an episode takes one request at a time")
        self._waiting = self._loop.create_future()
        self._started, self._stalled = time.monotonic(), self._watch.stalled
        if self._open:
            self._watch.work(self)
            if frame:
                self._send(frame)
        else:
            self._waiting.set_result(None)
        try:
            answer = await self._waiting
        except asyncio.CancelledError:
            self._fault = HostFault(FaultKind.HOST_FAULT, self._phase, "the request was cancelled")
            self._hang_up()
            raise
        finally:
            self._waiting = None
            self._watch.rest(self)
        if answer is None:
            raise await self._ended()
        self._settle()
        if self._stopped is not None:
            raise await self._ended()
        return answer

    def _settle(self) -> None:
        """Book what the answer has cost; CPU spent since counts towards the next request."""
        self._wall_spent += self._wall_since_start(time.monotonic())
        pid = self._process.pid
        if pid is None:
            return
        cpu = cpu_seconds(pid)
        passed = self._due_by_cpu(cpu)
        if passed is not None:
            self.stop(*passed)
        self._cpu_mark = cpu

    def _send(self, frame: bytes) -> None:
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the child is gone: the reader says so
        self._unsent = frame[sent:]
        if self._unsent:
            self._loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        self._send(self._unsent)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            return
        if self._waiting is None or self._waiting.done():
            self.stop(FaultKind.PROTOCOL, "data that was not asked for")
            return
        self._take(data, self._waiting)

    def _take(self, data: bytes, waiting: asyncio.Future[bytes | None]) -> None:
        """A piece of a frame, most often a whole one; pieces are gathered in place, however small they are."""
        if self._buffer or len(data) < _HEADER:
            self._buffer += data
            if len(self._buffer) < _HEADER:
                return
        frame = self._buffer or data
        size, found = int.from_bytes(frame[:_HEADER], "big"), len(frame) - _HEADER
        if size > self._limits.reply:
            self.stop(FaultKind.PROTOCOL, f"a reply of {size} bytes; at most {self._limits.reply}")
        elif found > size:
            self.stop(FaultKind.PROTOCOL, "data after the reply")
        elif found == size:
            self._ready = True
            body = bytes(frame[_HEADER:])
            self._buffer.clear()
            waiting.set_result(body)
        elif not self._buffer:
            self._buffer += data

    def _hang_up(self) -> None:
        """Close the channel, have the child killed, and wake who waits."""
        if self._open:
            self._open = False
            self._watch.discard(self)
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._zygote.kill(self._episode)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _reaped(self) -> Ended:
        try:
            return await asyncio.wait_for(asyncio.shield(self._process.ended), _REAP_TIMEOUT)
        except TimeoutError:
            return Ended(None)

    async def _ended(self) -> SandboxFault:
        """The fault of a child that was stopped or has ended, once it is reaped."""
        self._hang_up()
        ended = await self._reaped()
        if self._fault is None:
            self._fault = self._classify(ended)
        return self._fault

    def _classify(self, ended: Ended) -> SandboxFault:
        kind, detail = self._stopped if self._stopped is not None else self._told_by(ended)
        ours = kind in (FaultKind.HOST_FAULT, FaultKind.SANDBOX_SETUP)
        return (HostFault if ours else EnvironmentFault)(kind, self._phase, detail)

    def _told_by(self, ended: Ended) -> tuple[FaultKind, str]:
        """What an exit status says about a child that nobody stopped."""
        code = ended.code
        if code is None:
            return FaultKind.HOST_FAULT, self._process.failure or "the zygote was lost"
        if not self._ready:
            told = "a layer was refused" if code == SETUP_FAILED else f"status {code}"
            return FaultKind.SANDBOX_SETUP, f"the child ended before it was shut in ({told})"
        if code >= 0:
            return FaultKind.EXIT, f"the process ended with status {code}"
        if code == -signal.SIGSYS:
            return FaultKind.SYSCALL, "a system call that is not allowed"
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and ended.cpu >= self._limits.episode_cpu):
            return (
                FaultKind.BUDGET_EPISODE,
                f"{ended.cpu:.1f} s of CPU; at most {self._limits.episode_cpu:g} an episode",
            )
        if code == -signal.SIGKILL:
            return FaultKind.PROTOCOL, "the channel was closed"
        return FaultKind.CRASH, f"the process died of signal {-code} ({signal.strsignal(-code)})"
