"""The layers that shut in one episode child, in the order that makes each of them hold."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from . import landlock, seccomp

__all__ = [
    "CHANNEL",
    "NOBODY",
    "SETUP_FAILED",
    "Policy",
    "adopt_orphans",
    "be_first_to_die",
    "children",
    "die_with_parent",
    "own_resident",
    "prctl",
    "seal_zygote",
    "set_capabilities",
    "shut_in",
]

CHANNEL = 3
"""Where a child finds its channel."""
SETUP_FAILED = 70
"""Exit status of a child in which a layer could not be put on."""

NOBODY = 65534
"""User and group that root becomes."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PR_SET_CHILD_SUBREAPER = 36
_CAPABILITIES_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)
# Made here once: a child that made its own array types would spend more on them than on the call.
_CapabilityHeader, _Capabilities = ctypes.c_uint32 * 2, ctypes.c_uint32 * 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a child may use.

    Attributes:
        memory_bytes: address space beyond the zygote's own.
        cpu_seconds: CPU time of the whole episode; the kernel's backstop behind the host's clock.
        zygote_bytes: address space of the zygote, measured once before the first fork.
        stack_bytes: its stack; no more than this user may have.
        file_bytes: what it may write to one of the descriptors that it was given, where that is a file.
        landlock: the Landlock version to use; 0 for none.
        filters: the system-call filter; `None` for none.
    """

    memory_bytes: int
    cpu_seconds: int
    zygote_bytes: int
    stack_bytes: int = 8 * 1024 * 1024
    file_bytes: int = 0
    landlock: int = 0
    filters: seccomp.Filter | None = None

    @classmethod
    def of(cls, *, memory_bytes: int, cpu_seconds: int, layers: Sequence[str]) -> Self:
        """The policy of this zygote's children: those of `layers` that the kernel has."""
        return cls(
            memory_bytes=memory_bytes,
            cpu_seconds=cpu_seconds,
            zygote_bytes=_own_size(),
            landlock=landlock.version() if "landlock" in layers else 0,
            filters=seccomp.build() if "seccomp" in layers and seccomp.available() else None,
        )


def _own_size() -> int:
    """Address space of this process in bytes."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 (pathlib is not otherwise loaded here)
        return int(file.read().split()[0]) * resource.getpagesize()


def own_resident() -> int:
    """Resident bytes of this process that no file backs; a forked child starts with as many, all of them shared."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        fields = file.read().split()
    return (int(fields[1]) - int(fields[2])) * resource.getpagesize()


def die_with_parent() -> None:
    """Have this process killed when the one that started it ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> set[int]:
    """Process ids of this process's living and unreaped children."""
    own = os.getpid()
    with open(f"/proc/{own}/task/{own}/children") as file:  # noqa: PTH123
        return {int(pid) for pid in file.read().split()}


def seal_zygote(policy: Policy) -> None:
    """Put on, once, what every child inherits: first to die when memory runs out, no core, no new rights, Landlock.

    Raises:
        OSError: a layer could not be put on, or does not hold.
    """
    be_first_to_die()
    _let_others_finish()
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(kind, (0, 0))
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if policy.landlock:
        landlock.restrict(policy.landlock)
        try:
            os.close(os.open("/", os.O_RDONLY))
        except PermissionError:
            return
        raise OSError("Landlock is on and lets a folder be opened")


def shut_in(channel: int, standard: tuple[int, int, int], parent: int, policy: Policy) -> str:
    """Put every layer on this process, which was just forked from the process `parent`, and try each of them.

    Args:
        channel: becomes the descriptor `CHANNEL`.
        standard: become the descriptors 0 to 2.
        parent: process id of the zygote.
        policy: what to put on.

    Returns:
        The level that holds: A seccomp and Landlock, B seccomp, C Landlock, D rlimits and process separation only.

    Raises:
        OSError: a layer could not be put on, or does not hold; the caller must exit with `SETUP_FAILED`.
    """
    _keep_only(channel, standard)
    # The supervisor's session, which has no terminal, serves all. The kernel may give each session an equal share of
    # the processors: one for each child costs more than all other layers, and lets a crowd starve its trainer.
    os.setpgid(0, 0)
    _drop_root()
    set_capabilities()  # a process that is not root may have been given some
    prctl(_PR_SET_DUMPABLE, 0)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError("the zygote died before the child was shut in")
    _limit(policy)
    if policy.filters is not None:
        seccomp.install(policy.filters)
        if _libc.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0) != -1:
            raise OSError("seccomp is on and lets a socket be made")
    return _LEVELS[policy.filters is not None, policy.landlock > 0]


_LEVELS = {(True, True): "A", (True, False): "B", (False, True): "C", (False, False): "D"}


def _keep_only(channel: int, standard: tuple[int, int, int]) -> None:
    """The channel as descriptor 3, the standard ones as 0 to 2, nothing else."""
    for place, descriptor in enumerate(standard):
        os.dup2(descriptor, place)
    os.dup2(channel, CHANNEL)
    os.closerange(CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))


def be_first_to_die() -> None:
    """When the machine runs out of memory, this process dies before the trainer does."""
    file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(file, b"1000")
    os.close(file)


def _let_others_finish() -> None:
    """A child that wakes on the host's processor does not put the host aside, which has more requests to send.

    Its share of the processors stays the same. Without it, each step of a crowd costs the host two changes of process.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:
        return  # a kernel that does not know the policy: nothing but time is lost


def _drop_root() -> None:
    if os.geteuid() != 0:
        return
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def set_capabilities(kept: int = 0) -> None:
    """Give up every capability but those in `kept`, which are handed on as well.

    Args:
        kept: bits by capability number, all below 32.

    Raises:
        OSError: the kernel refused it.
    """
    if _libc.capset(_CapabilityHeader(_CAPABILITIES_3, 0), _Capabilities(kept, kept, kept, 0, 0, 0)) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities could not be dropped")


def _limit(policy: Policy) -> None:
    limits = {
        resource.RLIMIT_AS: policy.zygote_bytes + policy.memory_bytes,
        resource.RLIMIT_CPU: policy.cpu_seconds,
        resource.RLIMIT_FSIZE: policy.file_bytes,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: 16,
        resource.RLIMIT_STACK: _at_most(resource.RLIMIT_STACK, policy.stack_bytes),
    }
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def _at_most(kind: int, value: int) -> int:
    _, most = resource.getrlimit(kind)
    return value if most == resource.RLIM_INFINITY else min(value, most)


def prctl(option: int, value: int, extra: int = 0) -> None:
    """One of the kernel's process options.

    Raises:
        OSError: it was refused.
    """
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(extra), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}) refused: {os.strerror(number)}")


if sys.platform != "linux":
    raise ImportError(
        "the local sandbox needs Linux; on another system use the inline backend for catalogue environments"
    )
