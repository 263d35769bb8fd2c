"""The host's side of supervisor and zygotes: starting them, asking for children, hearing of their ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spade_environments.faults import FaultKind, HostFault
from spade_environments.inside import supervisor
from spade_environments.sandbox.numpy_folder import numpy_folder

__all__ = ["Descriptor", "Ended", "Process", "Supervisor", "Zygote", "ZygoteKind"]

_INSIDE = Path(__file__).resolve().parent.parent / "inside"
_READY_TIMEOUT = 60.0
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Ended(NamedTuple):
    """How a child ended.

    Attributes:
        code: exit status (negative: the signal); `None` where nobody can tell.
        cpu: CPU seconds.
        rss: peak resident bytes.
        killed: whether its zygote killed it, at the host's word, before it had ended.
    """

    code: int | None
    cpu: float = 0.0
    rss: int = 0
    killed: bool = False


class ZygoteKind(NamedTuple):
    """What tells one zygote from another: its hash seed, and whether numpy is loaded in it."""

    hash_seed: int
    numpy: bool


class Descriptor(Protocol):
    """An open socket or file."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class Process:
    """A child as its zygote reports it."""

    __slots__ = ("ended", "failure", "forked", "pid")

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.pid: int | None = None
        self.failure: str | None = None
        self.forked = asyncio.Event()
        self.ended: asyncio.Future[Ended] = loop.create_future()


class Supervisor:
    """One supervisor process, a fresh interpreter with an empty environment, and its zygotes by kind.

    Args:
        options: what every zygote is told.
        entry: the module of `inside` that a zygote runs.
    """

    def __init__(self, options: dict[str, Any], *, entry: str = "zygote") -> None:
        self._options = options
        self._entry = entry
        self._zygotes: dict[ZygoteKind, Zygote] = {}
        self._starting = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def zygote(self, kind: ZygoteKind) -> Zygote:
        """The living zygote of a kind, started when first asked for, and again after it was lost.

        Raises:
            HostFault: it did not come up.
        """
        found = self._zygotes.get(kind)
        if found is not None and found.alive:
            return found
        async with self._starting:
            found = self._zygotes.get(kind)
            if found is None or not found.alive:
                found = self._zygotes[kind] = await self._start(kind)
        return found

    async def _start(self, kind: ZygoteKind) -> Zygote:
        folder = numpy_folder() if kind.numpy else None
        ours, theirs = _control_pair()
        with theirs:
            try:
                self._ask(kind, folder, theirs)
            except OSError as error:
                ours.close()
                raise HostFault(FaultKind.HOST_FAULT, "load", f"the supervisor cannot be started: {error}") from error
        zygote = Zygote(ours)
        try:
            await asyncio.wait_for(asyncio.shield(zygote.ready), _READY_TIMEOUT)
        except (TimeoutError, ConnectionError) as error:
            zygote.close()
            raise HostFault(FaultKind.HOST_FAULT, "load", f"a zygote did not come up ({kind}): {error}") from error
        return zygote

    def _ask(self, kind: ZygoteKind, numpy_folder: str | None, descriptor: socket.socket) -> None:
        if self._process is None or self._process.poll() is not None:
            self._spawn()
        assert self._control is not None
        environment = {"PYTHONHASHSEED": str(kind.hash_seed)} | (_ONE_THREAD if kind.numpy else {})
        options = json.dumps({**self._options, "numpy_folder": numpy_folder})
        request = {"entry": self._entry, "environment": environment, "options": options}
        socket.send_fds(self._control, [json.dumps(request).encode()], [descriptor.fileno()])

    def _spawn(self) -> None:
        if self._control is not None:
            self._control.close()
        self._control, theirs = _control_pair()
        with theirs:
            program = [sys.executable, *supervisor.FLAGS, "-c", supervisor.BOOT]
            command = [*program, str(_INSIDE), "supervisor", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, env={"PYTHONHASHSEED": "0"}, cwd="/", close_fds=True, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    async def aclose(self) -> None:
        """End the supervisor, and with it every zygote and child."""
        for zygote in self._zygotes.values():
            zygote.close()
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)


class Zygote:
    """The control channel of one zygote: requests out, events of its children in."""

    def __init__(self, control: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._control = control
        self._outbox: deque[tuple[bytes, tuple[Descriptor, ...]]] = deque()
        self._processes: dict[int, Process] = {}
        self._next = 0
        self.alive = True
        self.resident = 0
        self.ready: asyncio.Future[None] = self._loop.create_future()
        control.setblocking(False)
        self._loop.add_reader(control.fileno(), self._read)

    def fork(self, *descriptors: Descriptor, **options: int) -> tuple[int, Process]:
        """Ask for a child that holds the descriptors, its channel first; they are closed here once they were sent."""
        episode, self._next = self._next, self._next + 1
        process = self._processes[episode] = Process()
        self._post({"op": "fork", "episode": episode, **options}, descriptors)
        return episode, process

    def kill(self, episode: int) -> None:
        """SIGKILL; the end is told through the process's `ended`."""
        if self.alive and episode in self._processes:
            self._post({"op": "kill", "episode": episode})

    def close(self) -> None:
        """Hang up; the zygote kills its children and ends."""
        if not self.alive:
            return
        self.alive = False
        control = self._control.fileno()
        self._loop.remove_reader(control)
        self._loop.remove_writer(control)
        self._control.close()
        for _, descriptors in self._outbox:
            for descriptor in descriptors:
                descriptor.close()
        self._outbox.clear()
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("the zygote was lost"))
            self.ready.exception()
        for process in self._processes.values():
            _end(process, Ended(None))
        self._processes.clear()

    def _post(self, request: dict[str, Any], descriptors: tuple[Descriptor, ...] = ()) -> None:
        self._outbox.append((json.dumps(request).encode(), descriptors))
        self._flush()

    def _flush(self) -> None:
        while self._outbox and self.alive:
            data, descriptors = self._outbox[0]
            try:
                socket.send_fds(self._control, [data], [descriptor.fileno() for descriptor in descriptors])
            except BlockingIOError:
                self._loop.add_writer(self._control.fileno(), self._flush)
                return
            except OSError:
                self.close()
                return
            self._outbox.popleft()
            for descriptor in descriptors:
                descriptor.close()
        if self.alive:
            self._loop.remove_writer(self._control.fileno())

    def _read(self) -> None:
        while self.alive:
            try:
                data = self._control.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            self._take(json.loads(data))

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            self.resident = event["resident"]
            self.ready.set_result(None)
            return
        process = self._processes.get(event["episode"])
        if process is None:
            return
        if event["event"] == "forked":
            process.pid = event["pid"]
            process.forked.set()
        elif event["event"] == "failed":
            process.failure = event["detail"]
            del self._processes[event["episode"]]
            _end(process, Ended(None))
        else:
            del self._processes[event["episode"]]
            _end(process, Ended(event["code"], event["cpu"], event["rss"], event["killed"]))


def _end(process: Process, ended: Ended) -> None:
    process.forked.set()
    with contextlib.suppress(asyncio.InvalidStateError):
        process.ended.set_result(ended)


def _control_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
