"""The jailer: a clean process that starts one foreign program in a jail, keeps its limits, and leaves nothing of it."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from . import jail_entry, lockdown, scratch, worker

__all__ = ["main"]

_POLL = 0.02
_LOOK, _LOOKING = 0.25, 5
"""Seconds between two looks into the scratch folder, and how many times longer than a look they are at least."""
_TICKS = os.sysconf("SC_CLK_TCK")


def main(control: int) -> None:
    """Read the order from the descriptor `control`, carry it out, and tell how the program ended."""
    os.set_inheritable(control, False)
    frame = worker.receive(control)
    if frame is None:
        return
    order = json.loads(frame)
    lockdown.adopt_orphans()
    room = _Room(order)
    report, report_end = os.pipe()
    program = os.fork()
    if program == 0:
        os.close(report)
        _become_program(order, report_end)
    for descriptor in (report_end, *order["streams"]):
        os.close(descriptor)
    _tell(control, {"started": program})
    refused = os.read(report, 4096).decode()
    ended = Ended("", 0.0) if refused else _watch(control, program, order, room)
    code, cpu = _end(program)
    _tell(control, {"refused": refused, "stopped": ended.stopped, "wall": ended.wall, "code": code, "cpu": cpu})
    if order["remove"]:  # here, because a program may have left a million files, and the host has other work
        scratch.remove(Path(order["scratch"]))


class Ended(NamedTuple):
    """Why the program was stopped, empty if it ended by itself, and the seconds it had lived."""

    stopped: str
    wall: float


def _tell(control: int, event: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        worker.send(control, json.dumps(event).encode())


class _Room:
    """What the program may add to its scratch folder."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._folder = Path(order["scratch"])
        began = scratch.Usage(0, 0)
        with contextlib.suppress(OSError):  # it cannot be entered then, which is told as what was refused
            began = scratch.usage(self._folder)
        self._most = scratch.Usage(began.size + order["scratch_bytes"], began.files + order["scratch_files"])
        self._due = 0.0

    def looked_over(self) -> bool:
        """Whether it was passed, if it is time to look again."""
        started = time.monotonic()
        if started < self._due:
            return False
        over = self.is_over()
        ended = time.monotonic()
        self._due = ended + max(_LOOK, _LOOKING * (ended - started))
        return over

    def is_over(self) -> bool:
        """Whether it is passed."""
        return scratch.usage(self._folder, self._most).passes(self._most)


def _watch(control: int, program: int, order: dict[str, Any], room: _Room) -> Ended:
    """Wait for the program's end, for a limit, or for the host's."""
    started = time.monotonic()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(os.pidfd_open(program), select.POLLIN)
    while True:
        ready = dict(poll.poll(_POLL * 1000))
        wall = time.monotonic() - started
        if control in ready:  # the host says nothing more: it has hung up
            return Ended("closed", wall)
        if ready:
            return Ended("output" if room.is_over() else "", wall)
        stopped = _over(order, wall) or ("output" if room.looked_over() else "")
        if stopped:
            return Ended(stopped, wall)
        _reap_orphans(program)


def _over(order: dict[str, Any], wall: float) -> str:
    """The limit that was passed."""
    if wall > order["wall"]:
        return "timeout_wall"
    cpu, memory = _cost(_descendants())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if cpu + used.ru_utime + used.ru_stime > order["timeout"]:
        return "timeout_cpu"
    return "memory" if memory > order["memory"] else ""


def _descendants() -> set[int]:
    """Everything that descends from this process; whose parent has ended belongs to this process itself."""
    found, layer = set(), lockdown.children()
    while layer:
        found |= layer
        layer = {child for pid in layer for child in _children(pid)} - found
    return found


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= {int(child) for child in (task / "children").read_text().split()}
    return found


def _cost(pids: set[int]) -> tuple[float, int]:
    """CPU seconds, with those of children already waited for, and resident bytes that no file on disk backs."""
    ticks, memory = 0, 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            ticks += sum(map(int, fields[11:15]))
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith(("RssAnon:", "RssShmem:")):
                    memory += int(line.split()[1]) * 1024
    return ticks / _TICKS, memory


def _reap_orphans(program: int) -> None:
    """Collect what its parent has left; the program itself is kept until its group was killed."""
    for pid in lockdown.children() - {program}:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _end(program: int) -> tuple[int, float]:
    """Kill all that is left; the program's status, and the CPU seconds of all of them."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # No process can have left the group, and none can fork with this signal before it.
        os.killpg(program, signal.SIGKILL)
    code = 0
    while True:
        for pid in lockdown.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            break
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, used.ru_utime + used.ru_stime


def _become_program(order: dict[str, Any], report: int) -> NoReturn:
    """Put everything on and become the program; tell what could not be done."""
    try:
        jail_entry.enter(order)
        os.execve(order["command"][0], order["command"], order["environment"])  # noqa: S606 (no shell is wanted)
    except BaseException as error:
        os.write(report, f"{type(error).__name__}: {error}".encode()[:4096])
    finally:
        os._exit(lockdown.SETUP_FAILED)
