"""The levels of the sandbox in words: what holds at each, what it does not stop, and which one a machine can reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DEGRADED", "LEVELS", "Level", "Machine", "level_named", "machine_limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level.

    Attributes:
        name: A to D, or `none`.
        holds: the layers that it has.
        not_stopped: what an environment at this level may still do, in words for a person.
    """

    name: str
    holds: str
    not_stopped: tuple[str, ...]


_ALWAYS = (
    "use its own CPU time and memory up to the limits",
    "learn from timing and shared caches what else the machine does",
    "attack the kernel through the few system calls that are left open",
)
_WITHOUT_FILTER = (
    "make sockets that are not TCP (UDP, local ones), and TCP ones too on a kernel before 6.7",
    "make pipes, files in memory, executable memory and shared memory, which no limit on all episodes counts",
    "make a user namespace, where the kernel gives one to anybody",
    "attack the kernel through any of its system calls",
)

LEVELS: Mapping[str, Level] = {
    level.name: level
    for level in (
        Level(
            name="A",
            holds="a process of its own, limits, a system-call filter (seccomp) and Landlock",
            not_stopped=_ALWAYS,
        ),
        Level(
            name="B",
            holds="a process of its own, limits and a system-call filter (seccomp)",
            not_stopped=(
                *_ALWAYS,
                "reach files and the network if it finds a hole in the filter: nothing stands behind it",
            ),
        ),
        Level(
            name="C",
            holds="a process of its own, limits and Landlock",
            not_stopped=(*_ALWAYS[:2], *_WITHOUT_FILTER),
        ),
        Level(
            name="D",
            holds="a process of its own and limits",
            not_stopped=(
                *_ALWAYS[:2],
                "read every file that its user may read, and write where that user may write",
                "use the network",
                "start programs",
                "signal other processes of its user, unless the trainer runs as root",
                *_WITHOUT_FILTER[1:],
            ),
        ),
        Level(
            name="none",
            holds="nothing: environments run inside the trainer's own process",
            not_stopped=("do anything that the trainer itself may do",),
        ),
    )
}

DEGRADED = frozenset({"C", "D"})
"""Levels at which nothing is trained unless the settings allow it."""


def level_named(name: str) -> Level:
    """The level of that name; of one that this version does not know nothing is promised."""
    unknown = Level(name=name, holds="unknown to this version", not_stopped=LEVELS["none"].not_stopped)
    return LEVELS.get(name, unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a kind of machine lets the sandbox reach.

    Attributes:
        best: the highest level; `none` where no sandbox runs.
        warning: what a person should know about it; empty where there is nothing.
    """

    best: str
    warning: str = ""


_ARM = (
    "the system-call numbers of aarch64 were compared with the kernel's tables and never tried on such a machine: "
    "trust what the attempts below show"
)
_MACHINES: Mapping[tuple[str, str], Machine] = {
    ("linux", "x86_64"): Machine(best="A"),
    ("linux", "aarch64"): Machine(best="A", warning=_ARM),
}


def machine_limits(system: str, machine: str) -> Machine:
    """What to expect of a machine, by the names that `sys.platform` and `platform.machine()` give it.

    >>> machine_limits("linux", "x86_64").best
    'A'
    """
    if system == "linux":
        told = f"there is no system-call filter for {machine}, so sockets, pipes and every system call stay open"
        return _MACHINES.get((system, machine), Machine(best="C", warning=told))
    if system == "darwin":
        return Machine(
            best="D",
            warning="macOS has neither seccomp nor Landlock: an environment is a process with limits on CPU time and "
            "files, and none on memory. Run nothing here that you distrust; use Linux, in a virtual machine at least",
        )
    if system == "win32":
        return Machine(
            best="none", warning="the sandbox does not run on Windows; use Linux, or the Linux that it offers"
        )
    return Machine(
        best="D", warning=f"on {system} an environment is a process with limits on CPU time and files; use Linux"
    )
