"""The system-call filter of a child: an allow-list, in tables for x86_64 and aarch64, as a classic BPF program."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = [
    "ALLOW",
    "DANGEROUS",
    "Filter",
    "Table",
    "Verdict",
    "available",
    "build",
    "column",
    "compiled",
    "install",
    "refused",
    "when_equal",
    "when_flagged",
]

_Line = tuple[int, int, int, int]
Verdict = tuple[_Line, ...]
"""What to do with a call: lines that end in a return."""
Table = dict[str, tuple[int | None, int | None]]
# Name to number on x86_64 and on aarch64; None where the machine has no such call. Often used calls come first.

_ALLOWED: Table = {
    "read": (0, 63), "write": (1, 64), "poll": (7, None), "ppoll": (271, 73), "brk": (12, 214),
    "munmap": (11, 215), "mremap": (25, 216), "close": (3, 57), "fstat": (5, 80),
    "lseek": (8, 62), "select": (23, None), "pselect6": (270, 72), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "sched_yield": (24, 124), "nanosleep": (35, 101),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "gettimeofday": (96, 169),
    "time": (201, None), "times": (100, 153), "getrusage": (98, 165), "getrandom": (318, 278), "getpid": (39, 172),
    "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "sched_getaffinity": (204, 123), "rseq": (334, 293), "membarrier": (324, 283),
    "set_robust_list": (273, 99), "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_SPECIAL: Table = {
    "mmap": (9, 222), "mprotect": (10, 226), "fcntl": (72, 25), "prlimit64": (302, 261),
    "madvise": (28, 233), "futex": (202, 98),
}  # fmt: skip
_REFUSED: dict[int, Table] = {
    errno.EACCES: {
        "open": (2, None), "openat": (257, 56), "openat2": (437, 437), "stat": (4, None), "lstat": (6, None),
        "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None), "faccessat": (269, 48),
        "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getdents": (78, None),
        "getdents64": (217, 61), "getcwd": (79, 17),
    },
    errno.EAGAIN: {
        "clone": (56, 220), "fork": (57, None), "vfork": (58, None),
    },
    errno.ENOSYS: {
        "clone3": (435, 435),
    },
    errno.ENOTTY: {
        "ioctl": (16, 29),
    },
}  # fmt: skip
DANGEROUS: Table = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "umount2": (166, 39), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsmount": (432, 432), "fsconfig": (431, 431), "fspick": (433, 433), "pivot_root": (155, 41), "chroot": (161, 51),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "open_by_handle_at": (304, 265), "kcmp": (312, 272), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225),
}  # fmt: skip

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32_BIT = 0x40000000
_PROT_EXEC = 4
_MAP_SHARED = 1
_FUTEX_PLAIN, _FUTEX_MODES = (0, 1, 3, 4, 5, 9, 10), (0, 128, 256, 384)
# Waiting and waking. The others hand on priorities, and tie another process, named by its id, to what is waited for.
_MERGEABLE, _COLD, _PAGE_OUT = 12, 20, 21
_F_GETFD, _F_GETFL = 1, 3
_PR_GET_SECCOMP, _PR_SET_SECCOMP, _MODE_FILTER = 21, 22, 2
_KILL, _PASS, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _JUMP, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06
_NUMBER, _ARCH = 0, 4
ALLOW: Verdict = ((_RETURN, 0, 0, _PASS),)
"""Let the call pass."""
_DENIED: Verdict = ((_RETURN, 0, 0, _ERRNO | errno.EPERM),)
_libc = ctypes.CDLL(None, use_errno=True)


class Filter(NamedTuple):
    """A program ready to install: built once in the zygote, so that a child only makes the call."""

    program: ctypes.Structure
    instructions: ctypes.Array[Any]


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def available() -> bool:
    """Whether this machine and kernel can filter system calls."""
    if platform.machine() not in _ARCHITECTURES:
        return False
    # With a null program a kernel that has filters answers EFAULT, one that has none EINVAL.
    refused = _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, None, 0, 0) != 0
    return refused and ctypes.get_errno() == errno.EFAULT


def column() -> int:
    """Which number of a table is this machine's.

    Raises:
        KeyError: an architecture without a table.
    """
    return _ARCHITECTURES[platform.machine()][0]


def build() -> Filter:
    """The filter of an episode's child on this machine.

    Raises:
        KeyError: an architecture without a table.
    """
    return compiled(_verdicts(column()), otherwise=_DENIED)


def compiled(verdicts: dict[int, Verdict], *, otherwise: Verdict) -> Filter:
    """A filter that answers a call by its number, and any that has none in `verdicts` by `otherwise`.

    Raises:
        KeyError: an architecture without a table.
    """
    body = _program(verdicts, otherwise, _ARCHITECTURES[platform.machine()][1])
    instructions = (_Instruction * len(body))(*(_Instruction(*line) for line in body))
    return Filter(_Program(len(body), instructions), instructions)


def install(filters: Filter) -> None:
    """Put the filter on this thread, for good; no_new_privs must be set.

    Raises:
        OSError: the kernel refused it.
    """
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filters.program), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp refused: {os.strerror(number)}")


def _program(verdicts: dict[int, Verdict], otherwise: Verdict, architecture: int) -> list[_Line]:
    """Architecture, x32, then a search tree over the numbers.

    A tree, because the kernel runs the program once for every call there is while it installs it.
    """
    lines: list[_Line] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture == _ARCHITECTURES["x86_64"][1]:
        lines += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    return lines + _tree(_ranges(verdicts, otherwise))


def _verdicts(column: int) -> dict[int, Verdict]:
    """What to do with each number that a table names: the lines that end in a return."""
    found: dict[int, Verdict] = {}
    groups = [(_ALLOWED, _PASS), (DANGEROUS, _KILL)]
    groups += [(table, _ERRNO | number) for number, table in _REFUSED.items()]
    for table, action in groups:
        found |= {number: ((_RETURN, 0, 0, action),) for pair in table.values() if (number := pair[column]) is not None}
    for name, verdict in _BY_ARGUMENT.items():
        number = _SPECIAL[name][column]
        assert number is not None
        found[number] = verdict
    return found


def _ranges(verdicts: dict[int, Verdict], otherwise: Verdict) -> list[tuple[int, Verdict]]:
    """Where each run of numbers with one verdict starts, from 0 up."""
    starts: list[tuple[int, Verdict]] = [(0, otherwise)]
    for number in sorted({*verdicts, *(number + 1 for number in verdicts)}):
        verdict = verdicts.get(number, otherwise)
        if verdict != starts[-1][1]:
            starts.append((number, verdict))
    return starts


def _tree(ranges: list[tuple[int, Verdict]]) -> list[_Line]:
    """The number is known to lie in `ranges`: halve them until one is left."""
    if len(ranges) == 1:
        return list(ranges[0][1])
    middle = len(ranges) // 2
    low, high = _tree(ranges[:middle]), _tree(ranges[middle:])
    # A conditional jump reaches 255 lines, a plain one any number of them.
    return [(_AT_LEAST, 0, 1, ranges[middle][0]), (_JUMP, 0, 0, len(low)), *low, *high]


def refused(number: int) -> Verdict:
    """Answer with an error number."""
    return ((_RETURN, 0, 0, _ERRNO | number),)


def when_equal(place: int, values: Sequence[int], hit: Verdict, miss: Verdict) -> Verdict:
    """`hit` where the low word of an argument is one of `values`, else `miss`."""
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return (_argument(place), *tests, (_JUMP, 0, 0, len(hit)), *hit, *miss)


def when_flagged(place: int, flags: int, hit: Verdict, miss: Verdict) -> Verdict:
    """`hit` where the low word of an argument has one of `flags`, else `miss`."""
    return (_argument(place), (_ANY_BIT, 0, len(hit), flags), *hit, *miss)


def _argument(place: int) -> _Line:
    """Load the low word of an argument."""
    return (_LOAD, 0, 0, 16 + 8 * place)


_NO_EXECUTION = when_flagged(2, _PROT_EXEC, _DENIED, ALLOW)
_BY_ARGUMENT: dict[str, Verdict] = {
    "mmap": when_flagged(3, _MAP_SHARED, _DENIED, _NO_EXECUTION),
    "mprotect": _NO_EXECUTION,
    "futex": when_equal(
        1, [kind | mode for kind in _FUTEX_PLAIN for mode in _FUTEX_MODES], ALLOW, refused(errno.ENOSYS)
    ),
    "madvise": when_equal(2, (_MERGEABLE, _COLD, _PAGE_OUT), _DENIED, ALLOW),
    "fcntl": when_equal(1, (_F_GETFD, _F_GETFL), ALLOW, _DENIED),
    "prlimit64": when_equal(0, (0,), _DENIED, ((_RETURN, 0, 0, _KILL),)),
}
# No executable memory; none that the watch would not see, be it shared (the kernel books it as a file) or swapped out;
# none merged with what others hold; no flag set, no other process's limits.
