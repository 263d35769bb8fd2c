"""The way into a jail: what a process gives up, in an order that makes it hold, before it becomes another program."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import jail_filter, landlock, lockdown, seccomp

__all__ = ["SYSTEM", "enter", "missing"]

SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives",
    "/dev/zero", "/dev/urandom", "/dev/random", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip
"""What every program may read where it is there: programs, their libraries, and what tells of the machine."""
_DEVNULL = "/dev/null"
_DESCRIPTORS = 256
_CAP_DAC_READ_SEARCH = 2
_PR_SET_PDEATHSIG, _PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 8, 38, 47
_PR_CAP_AMBIENT_RAISE = 2


def missing() -> tuple[str, ...]:
    """What this kernel lacks of what a jail is made of, in words."""
    known = landlock.version()
    found = [] if seccomp.available() else ["a system-call filter (seccomp) on x86_64 or aarch64"]
    if known < landlock.TRUNCATE:
        found.append(f"Landlock of version {landlock.TRUNCATE} (Linux 6.2) or later; version {known} was found")
    return tuple(found)


def enter(order: dict[str, Any]) -> None:
    """Shut this process in, which was just forked from the jailer, and try that it holds.

    Args:
        order: the folders `scratch` and `readable`, the descriptors `streams`, and the limits `timeout`, `memory`,
            `processes` and `flood`.

    Raises:
        OSError: a layer was refused or does not hold, or a path cannot be opened.
    """
    jailer = os.getppid()
    os.setsid()
    for place, descriptor in enumerate(order["streams"]):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.chdir(order["scratch"])
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    known = landlock.version()
    root = os.geteuid() == 0
    lockdown.be_first_to_die()
    lockdown.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    hidden = _become_nobody([*order["readable"], order["scratch"]]) if root else False
    _limit(order)
    readable = [path for path in (*SYSTEM, *order["readable"]) if Path(path).exists()]
    landlock.restrict(known, readable, [_DEVNULL, order["scratch"]])
    lockdown.set_capabilities(1 << _CAP_DAC_READ_SEARCH if hidden else 0)
    if hidden:
        lockdown.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)
    lockdown.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != jailer:
        raise OSError("the jailer died before the program was shut in")
    seccomp.install(jail_filter.build(own_user=not root, scoped=known >= landlock.SCOPES))
    _try_it()


def _become_nobody(readable: list[str]) -> bool:
    """Drop root; whether something that is to be read is closed to everybody else.

    Then the capability to read it stays, and Landlock alone says where: a root user's own folders are commonly closed.
    """
    os.setgroups([])
    os.setegid(lockdown.NOBODY)
    os.seteuid(lockdown.NOBODY)
    hidden = [path for path in readable if not os.access(path, os.R_OK, effective_ids=True)]
    os.seteuid(0)
    os.setegid(0)
    lockdown.prctl(_PR_SET_KEEPCAPS, 1)
    os.setresgid(lockdown.NOBODY, lockdown.NOBODY, lockdown.NOBODY)
    os.setresuid(lockdown.NOBODY, lockdown.NOBODY, lockdown.NOBODY)
    if hidden:
        try:
            lockdown.set_capabilities(1 << _CAP_DAC_READ_SEARCH)
        except OSError as error:
            told = "it is closed to the user nobody, and this root user may not pass on the right to read it"
            raise PermissionError(error.errno, told, hidden[0]) from error
    return bool(hidden)


def _limit(order: dict[str, Any]) -> None:
    seconds = int(order["timeout"]) + 2
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_DATA: order["memory"],
        resource.RLIMIT_FSIZE: order["flood"],
        resource.RLIMIT_NPROC: order["processes"] + _tasks_of(os.getuid()),
        resource.RLIMIT_NOFILE: _DESCRIPTORS,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for kind, value in limits.items():
        _, most = resource.getrlimit(kind)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (value, value))


def _tasks_of(user: int) -> int:
    """Threads of all processes of a user: the kernel's limit counts them together."""
    found, mark = 0, b"\nUid:\t%d\t" % user
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "status").read_bytes()
        except OSError:  # it has ended
            continue
        if mark in told:
            found += int(told.partition(b"\nThreads:\t")[2].split(None, 1)[0])
    return found


def _try_it() -> None:
    if _passes(_list_root) or _passes(_make_socket):
        raise OSError("a layer is on and does not hold")


def _passes(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except PermissionError:
        return False
    return True


def _list_root() -> None:
    os.close(os.open("/", os.O_RDONLY))


def _make_socket() -> None:
    socket.socket().close()
