"""The host's side of one jail: its jailer is started, given its order, heard, and never outlived by what it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from spade_environments.faults import FaultKind, HostFault
from spade_environments.inside.lockdown import NOBODY
from spade_environments.inside.scratch import remove
from spade_environments.inside.supervisor import BOOT, FLAGS
from spade_environments.sandbox.execution import Execution, ExecutionOutcome
from spade_environments.sandbox.streams import Streams
from spade_environments.sandbox.verdict import Verdict, verdict

__all__ = ["Order", "carry_out"]

_INSIDE = Path(__file__).resolve().parent.parent / "inside"
_HEADER = 4
_CHUNK = 65536
_START = 60.0
_GRACE = 60.0
# For what is left to do when all is told: to end what still lives, and to remove what lies in scratch.


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One program and what it may use; see `run_jailed`."""

    command: tuple[str, ...]
    environment: dict[str, str]
    readable: tuple[str, ...]
    timeout: float
    wall: float
    memory: int
    processes: int
    flood: int
    output: int
    scratch_bytes: int
    scratch_files: int


class _Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    started: int


class _Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the program ended: what was refused before it began, which limit stopped it, and what it took."""

    refused: str
    stopped: str
    wall: float
    code: int
    cpu: float


async def carry_out(order: Order, stdin: bytes, scratch: Path | None, *, discard: bool = False) -> Execution:
    """Run the program to its end; see `run_jailed`."""
    remove_it = discard or scratch is None
    with _scratch_folder(scratch, remove_it=remove_it) as folder, Streams(stdin) as streams:
        jailer = _Jailer(streams)
        try:
            told = await jailer.told(order, folder, remove_it=remove_it)
        finally:
            await jailer.aclose()
        return _execution(order, told, streams)


@contextlib.contextmanager
def _scratch_folder(given: Path | None, *, remove_it: bool) -> Iterator[Path]:
    """`given`, or a new folder; the jailer removes it, or else this; the program's user owns either."""
    folder = Path(tempfile.mkdtemp(prefix="spade-jail-")) if given is None else given
    try:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        if remove_it and folder.exists():
            remove(folder)


def _execution(order: Order, told: _Told, streams: Streams) -> Execution:
    if told.refused:
        detail = f"{order.command[0]} could not be started in a jail: {told.refused}"
        raise HostFault(FaultKind.SANDBOX_SETUP, "run", detail)
    found = streams.execution(
        outcome=ExecutionOutcome.OK, exit_code=told.code, error="", limit=order.output,
        cpu_seconds=told.cpu, wall_seconds=told.wall,
    )  # fmt: skip
    outcome, error = _verdict(order, told, max(found.stdout_bytes, found.stderr_bytes))
    return replace(found, outcome=outcome, error=error, truncated=found.truncated or outcome is ExecutionOutcome.OUTPUT)


def _verdict(order: Order, told: _Told, written: int) -> Verdict:
    limits = {
        "timeout_cpu": f"more than {order.timeout:g} s of CPU",
        "timeout_wall": f"no end in {order.wall:g} s",
        "memory": f"more than {order.memory >> 20} MiB resident",
        "output": f"more than {order.scratch_bytes} bytes or {order.scratch_files} files put into its scratch folder",
    }
    if told.stopped:
        return Verdict(ExecutionOutcome(told.stopped), limits[told.stopped])
    if written >= order.flood:  # many programs are told of it as an error of their own, and end as they like
        return Verdict(ExecutionOutcome.OUTPUT, f"more than {order.flood} bytes written to one stream or file")
    return verdict(told.code, cpu=told.cpu, timeout=order.timeout, flood=order.flood, report=None)


class _Jailer:
    """One jailer: a fresh interpreter with an empty environment."""

    def __init__(self, streams: Streams) -> None:
        self._program = 0
        self._buffer = bytearray()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        copies = streams.copies()
        self._streams = [copy.fileno() for copy in copies]
        command = [sys.executable, *FLAGS, "-c", BOOT, str(_INSIDE), "jail", str(theirs.fileno())]
        try:
            self._process = subprocess.Popen(
                command, env={}, cwd="/", close_fds=True, pass_fds=[theirs.fileno(), *self._streams],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._socket.close()
            raise HostFault(FaultKind.HOST_FAULT, "run", f"the jailer cannot be started: {error}") from error
        finally:
            theirs.close()
            for copy in copies:
                copy.close()
        self._socket.setblocking(False)

    async def told(self, order: Order, scratch: Path, *, remove_it: bool) -> _Told:
        """Give the order, and wait for what comes of it.

        Raises:
            HostFault: the jailer was lost, or did not keep the wall limit.
        """
        paths = {"scratch": str(scratch), "remove": remove_it}
        body = msgspec.json.encode(asdict(order) | paths | {"streams": self._streams})
        try:
            async with asyncio.timeout(order.wall + _START):
                await asyncio.get_running_loop().sock_sendall(self._socket, len(body).to_bytes(_HEADER, "big") + body)
                self._program = msgspec.json.decode(await self._frame(), type=_Started).started
                return msgspec.json.decode(await self._frame(), type=_Told)
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            raise HostFault(FaultKind.HOST_FAULT, "run", "the jailer was lost") from error
        except TimeoutError as error:
            raise HostFault(FaultKind.HOST_FAULT, "run", f"the jailer said nothing in {order.wall:g} s") from error

    async def _frame(self) -> bytes:
        while True:
            size = int.from_bytes(self._buffer[:_HEADER], "big") + _HEADER
            if len(self._buffer) >= max(size, _HEADER + 1):
                body = bytes(self._buffer[_HEADER:size])
                del self._buffer[:size]
                return body
            data = await asyncio.get_running_loop().sock_recv(self._socket, _CHUNK)
            if not data:
                raise EOFError
            self._buffer += data

    async def aclose(self) -> None:
        """Hang up and wait for the jailer's end; it ends the program, and where it cannot, that is done here."""
        self._socket.close()
        if not await self._ended():
            self._process.kill()
        self._process.wait()
        if self._process.returncode != 0 and self._program:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._program, signal.SIGKILL)

    async def _ended(self) -> bool:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        watched = os.pidfd_open(self._process.pid)
        loop.add_reader(watched, ended.set)
        try:
            async with asyncio.timeout(_GRACE):
                await ended.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(watched)
            os.close(watched)
        return True
