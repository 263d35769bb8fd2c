"""The zygote: a single-threaded interpreter with everything preloaded, which forks one child for each episode."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from typing import Any

from . import determinism, imports, lockdown, rehearsal, worker
from .attendant import Attendant

__all__ = ["Zygote", "main"]


def main(control: int, options: str) -> None:
    """Serve fork and kill requests on the descriptor `control` until its other end is closed."""
    os.set_inheritable(control, False)
    settings = json.loads(options)
    lockdown.die_with_parent()
    imports.preload(settings["extra_modules"], settings["numpy_folder"])
    determinism.install()
    imports.guard_imports(settings["extra_modules"])
    sys.argv[:] = sys.orig_argv[:] = []
    rehearsal.rehearse()
    policy = lockdown.Policy.of(
        memory_bytes=settings["memory_bytes"], cpu_seconds=settings["cpu_seconds"], layers=settings["layers"]
    )
    with socket.socket(fileno=control) as channel:
        Zygote(channel, policy).run_sealed()


class Zygote(Attendant):
    """Children by episode number; starts, kills and reaps them."""

    def __init__(self, control: socket.socket, policy: lockdown.Policy) -> None:
        super().__init__(control)
        self.policy = policy
        self._devnull = os.open("/dev/null", os.O_RDWR)
        self._pids: dict[int, int] = {}
        self._episodes: dict[int, int] = {}
        self._killed: set[int] = set()

    def run_sealed(self) -> None:
        """Put on what every child inherits, say so, and attend."""
        resident = lockdown.own_resident()
        lockdown.seal_zygote(self.policy)
        gc.collect()
        gc.freeze()
        self.tell({"event": "ready", "resident": resident})
        self.run()

    def serve(self, request: dict[str, Any], descriptors: list[int]) -> None:
        if request["op"] == "fork":
            self._fork(request, descriptors)
        else:
            self._kill(request["episode"])

    def end(self) -> None:
        for episode in self._pids:
            self._kill(episode)

    def shut_in(self, request: dict[str, Any], descriptors: list[int], parent: int) -> str:
        """In a child just forked: put the layers on; the level that holds."""
        return lockdown.shut_in(descriptors[0], (self._devnull,) * 3, parent, self.policy)

    def live(self) -> None:
        """In a child that is shut in: do what it is there for."""
        sys.stdin = sys.stdout = sys.stderr = _Nowhere()
        gc.collect()  # the next collection, which may call finalisers, comes as soon in an old zygote as in a young one
        worker.serve(lockdown.CHANNEL)

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> None:
        episode, parent = request["episode"], os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.tell({"event": "failed", "episode": episode, "detail": f"fork refused: {error.strerror}"})
        else:
            if pid == 0:
                self._become_child(request, descriptors, parent)
            self._pids[episode], self._episodes[pid] = pid, episode
            self.tell({"event": "forked", "episode": episode, "pid": pid})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _become_child(self, request: dict[str, Any], descriptors: list[int], parent: int) -> None:
        """Never returns."""
        status = lockdown.SETUP_FAILED
        try:
            self.leave_to_child()
            level = self.shut_in(request, descriptors, parent)
            status = 0
            worker.send(lockdown.CHANNEL, level.encode())  # the host's sign that the layers hold, before any source
            self.live()
        finally:
            os._exit(status)

    def _kill(self, episode: int) -> None:
        pid = self._pids.get(episode)
        if pid is None:  # it has ended and its exit has been told
            return
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            self._killed.add(episode)
            os.kill(pid, signal.SIGKILL)

    def reap(self) -> None:
        while self._episodes:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            episode = self._episodes.pop(pid, None)
            if episode is None:
                continue
            del self._pids[episode]
            killed = episode in self._killed
            self._killed.discard(episode)
            cpu = usage.ru_utime + usage.ru_stime
            self.tell({"event": "ended", "episode": episode, "code": os.waitstatus_to_exitcode(status), "cpu": cpu,
                        "rss": usage.ru_maxrss * 1024, "killed": killed})  # fmt: skip


class _Nowhere:
    """A text stream that takes everything and keeps nothing."""

    encoding, errors, closed, newlines = "utf-8", "strict", False, None

    def write(self, text: str) -> int:
        return len(text)

    def read(self, size: int = -1) -> str:
        return ""

    readline = read

    def flush(self) -> None:
        return None

    def isatty(self) -> bool:
        return False
