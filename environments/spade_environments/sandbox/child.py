"""One episode's child, host side: requests and replies over its channel, its limits, and how it ended."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import struct
import time
from typing import Any, TypeVar

from spade_environments.faults import FaultKind, HostFault, SandboxFault
from spade_environments.limits import Limits
from spade_environments.sandbox.answer import Answer
from spade_environments.sandbox.ending import Reason, as_fault, told_by
from spade_environments.sandbox.nonces import Nonces
from spade_environments.sandbox.process import Ended, Zygote
from spade_environments.sandbox.switchboard import PATIENCE, Switchboard
from spade_environments.sandbox.watch import SWEEP, Watch, cpu_seconds, is_asleep, resident_bytes
from spade_environments.wire import Failed, WireError, decode, encode

__all__ = ["Child"]

R = TypeVar("R")
_HEADER = 4
_size = struct.Struct(">I").unpack_from
_REAP_TIMEOUT = 10.0
_START_WALL = 60.0
_PHASES = {"hidden_values": "solution"}
_next_nonce = Nonces().next
_monotonic = time.monotonic
_give_way = os.sched_yield


class Child:
    """A forked child and its channel; one request at a time, and none after a fault."""

    def __init__(self, zygote: Zygote, limits: Limits, watch: Watch, switchboard: Switchboard) -> None:
        self._loop = asyncio.get_running_loop()
        self._zygote, self._limits, self._watch, self._switchboard = zygote, limits, watch, switchboard
        self._operation, self._phase = "", "load"
        self._fault: SandboxFault | None = None
        self._stopped: Reason | None = None
        self._ready = False
        self._open = True
        self._buffer = bytearray()
        self._unsent = b""
        self._answer = Answer(self._loop, self._cut_short)
        self._cpu_mark: float | None = 0.0  # None: not read since a quick answer, see _settle
        self._cpu_limit = math.inf
        self._started = self._stalled = self._wall_spent = 0.0
        self._wall_limit = _START_WALL
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._receive_into, self._room = self._socket.recv_into, switchboard.room
        self._descriptor = self._socket.fileno()
        switchboard.add(self._descriptor, self._read)
        self._episode, self._process = zygote.fork(theirs)
        watch.add(self)

    @property
    def busy(self) -> bool:
        return self._answer.pending

    def resident(self) -> int:
        """Bytes the child has added to what it shares with its zygote since the fork."""
        pid = self._process.pid
        return 0 if pid is None else max(0, resident_bytes(pid) - self._zygote.resident)

    async def start(self) -> str:
        """Wait until the child is shut in; the level that it has shown to hold.

        Raises:
            HostFault: it could not be forked or shut in.
        """
        self._answer.pending = True
        self._started, self._stalled = _monotonic(), self._watch.stalled
        level = await self._answer
        if level is None:
            raise await self._ended()
        await self._process.forked.wait()
        return level.decode()

    async def request(self, operation: str, payload: dict[str, Any], reply: type[R]) -> R:
        """Ask the child, within the limits of `operation`.

        Raises:
            EnvironmentFault: the environment broke a limit or the protocol, ended, or raised; the child is gone.
            HostFault: the child was lost through no fault of its own.
        """
        answer = self._answer
        if answer.pending:
            raise RuntimeError("an episode takes one request at a time")
        if not self._open:
            raise await self._ended()
        if operation != self._operation:
            self._operation, self._phase = operation, _PHASES.get(operation, operation)
            self._cpu_limit, self._wall_limit = self._limits.cpu(operation), self._limits.wall(operation)
        nonce = _next_nonce()
        frame = encode(nonce, operation, payload)
        answer.pending = True
        self._started, self._stalled = _monotonic(), self._watch.stalled
        alone = self._switchboard.asks(self._descriptor)
        try:
            self._send(frame)
            if alone:
                self._wait_here()
            body = await answer
        finally:
            self._switchboard.answered()
        if body is None or not self._settle():
            raise await self._ended()
        try:
            found = decode(body, nonce, reply)
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

    def due(self, now: float) -> Reason | None:
        """The limit that has been passed, if one has."""
        pid = self._process.pid
        passed = None if pid is None else self._due_by_cpu(cpu_seconds(pid))
        if passed is not None or not self._answer.pending:
            return passed
        return self._due_by_wall(self._wall_since_start(now))

    def _wall_since_start(self, now: float) -> float:
        """Seconds since the request, less those in which the host could not have read an answer."""
        return max(0.0, now - self._started - (self._watch.stalled - self._stalled))

    def _due_by_cpu(self, cpu: float) -> Reason | None:
        if self._cpu_mark is None:
            self._cpu_mark = cpu
        if cpu > self._limits.episode_cpu:
            return FaultKind.BUDGET_EPISODE, f"{cpu:.1f} s of CPU; at most {self._limits.episode_cpu:g} an episode"
        if cpu - self._cpu_mark > self._cpu_limit:
            return FaultKind.TIMEOUT_CPU, f"more than {self._cpu_limit:g} s of CPU"
        return None

    def _due_by_wall(self, wall: float) -> Reason | None:
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

    def _settle(self) -> bool:
        """Book what the answer has cost; False if that was too much.

        A child has one thread, so an answer that came sooner than a sweep cannot have used more than that: its CPU time
        is left to the next sweep to read, from which the then running request is measured.
        """
        waited = _monotonic() - self._started - (self._watch.stalled - self._stalled)
        if waited > 0.0:
            self._wall_spent += waited
        if waited < SWEEP:
            self._cpu_mark = None
        elif (pid := self._process.pid) is not None:
            cpu = cpu_seconds(pid)
            passed = self._due_by_cpu(cpu)
            self._cpu_mark = cpu
            if passed is not None:
                self.stop(*passed)
        return self._open

    def _wait_here(self) -> None:
        """Look for the answer of a lone, quick child on the spot: to sleep until it comes would take longer than it.

        A child that is not as quick may be waiting for this processor, which it then gets.
        """
        answer, switchboard = self._answer, self._switchboard
        if switchboard.watches():
            ends = _monotonic() + PATIENCE
            while answer.pending and _monotonic() < ends:
                self._read()
            switchboard.watched(in_vain=answer.pending)
        if answer.pending:
            _give_way()
            self._read()

    def _cut_short(self) -> None:
        """The task that waited was cancelled: what the child does next answers nobody."""
        self._fault = HostFault(FaultKind.HOST_FAULT, self._phase, "the request was cancelled")
        self._hang_up()

    def _send(self, frame: bytes) -> None:
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the child is gone: the reader says so
        if sent != len(frame):
            self._unsent = frame[sent:]
            self._loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        self._send(self._unsent)

    def _read(self) -> None:
        room = self._room
        try:
            found = self._receive_into(room)
        except BlockingIOError:
            return
        except OSError:
            found = 0
        if (
            found > _HEADER
            and _size(room)[0] == found - _HEADER <= self._limits.reply
            and self._answer.pending
            and not self._buffer
        ):
            self._ready = True
            self._answer.deliver(bytes(room[_HEADER:found]))
        elif not found:
            self._hang_up()
        elif not self._answer.pending:
            self.stop(FaultKind.PROTOCOL, "data that was not asked for")
        else:
            self._gather(bytes(room[:found]))

    def _gather(self, data: bytes) -> None:
        """A piece of a frame; pieces are gathered in place, however small they are."""
        frame = self._buffer
        frame += data
        if len(frame) < _HEADER:
            return
        size, found = _size(frame)[0], len(frame) - _HEADER
        if size > self._limits.reply:
            self.stop(FaultKind.PROTOCOL, f"a reply of {size} bytes; at most {self._limits.reply}")
        elif found > size:
            self.stop(FaultKind.PROTOCOL, "data after the reply")
        elif found == size:
            body = bytes(frame[_HEADER:])
            frame.clear()
            self._ready = True
            self._answer.deliver(body)

    def _hang_up(self) -> None:
        """Close the channel, have the child killed, and wake who waits."""
        if self._open:
            self._open = False
            self._watch.discard(self)
            self._switchboard.remove(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self._socket.close()
            self._zygote.kill(self._episode)
        self._answer.give_up()

    async def _reaped(self) -> Ended:
        done, _ = await asyncio.wait({self._process.ended}, timeout=_REAP_TIMEOUT)
        return self._process.ended.result() if done else Ended(None)

    async def _ended(self) -> SandboxFault:
        """The fault of a child that was stopped or has ended, once it is reaped."""
        self._hang_up()
        ended = await self._reaped()
        if self._fault is None:
            told = told_by(ended, self._limits, ready=self._ready, failure=self._process.failure)
            self._fault = as_fault(self._stopped or told, self._phase)
        return self._fault
