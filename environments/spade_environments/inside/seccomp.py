"""The system-call filter of a child: an allow-list, in tables for x86_64 and aarch64, as a classic BPF program."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import Any, NamedTuple

__all__ = ["Filter", "available", "build", "install"]

_Table = dict[str, tuple[int | None, int | None]]
# Name to number on x86_64 and on aarch64; None where the machine has no such call. Often used calls come first.

_ALLOWED: _Table = {
    "read": (0, 63), "write": (1, 64), "poll": (7, None), "ppoll": (271, 73), "futex": (202, 98), "brk": (12, 214),
    "munmap": (11, 215), "mremap": (25, 216), "madvise": (28, 233), "close": (3, 57), "fstat": (5, 80),
    "lseek": (8, 62), "select": (23, None), "pselect6": (270, 72), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "sched_yield": (24, 124), "nanosleep": (35, 101),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "gettimeofday": (96, 169),
    "time": (201, None), "times": (100, 153), "getrusage": (98, 165), "getrandom": (318, 278), "getpid": (39, 172),
    "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "sched_getaffinity": (204, 123), "rseq": (334, 293), "membarrier": (324, 283),
    "set_robust_list": (273, 99), "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_SPECIAL: _Table = {
    "mmap": (9, 222), "mprotect": (10, 226), "fcntl": (72, 25), "prlimit64": (302, 261),
}  # fmt: skip
_REFUSED: dict[int, _Table] = {
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
_DANGEROUS: _Table = {
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
_F_GETFD, _F_GETFL = 1, 3
_PR_GET_SECCOMP, _PR_SET_SECCOMP, _MODE_FILTER = 21, 22, 2
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH = 0, 4
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


def build() -> Filter:
    """The filter for this machine.

    Raises:
        KeyError: an architecture without a table.
    """
    column, architecture = _ARCHITECTURES[platform.machine()]
    body = _program(column, architecture)
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


_Line = tuple[int, int, int, int]


def _program(column: int, architecture: int) -> list[_Line]:
    """Architecture, x32, then one comparison after another; what no line names is refused with EPERM."""
    lines: list[_Line] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture == _ARCHITECTURES["x86_64"][1]:
        lines += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    lines += _each(_ALLOWED, column, _ALLOW)
    lines += _special(column)
    for number, table in _REFUSED.items():
        lines += _each(table, column, _ERRNO | number)
    lines += _each(_DANGEROUS, column, _KILL)
    return [*lines, (_RETURN, 0, 0, _ERRNO | errno.EPERM)]


def _each(table: _Table, column: int, action: int) -> list[_Line]:
    """Compare with every number of `table`; on a match jump to the action behind the last comparison."""
    numbers = [number for pair in table.values() if (number := pair[column]) is not None]
    last = len(numbers) - 1
    # A match jumps over the comparisons that are left; the last one, failing, over the action.
    tests: list[_Line] = [(_EQUAL, last - place, int(place == last), number) for place, number in enumerate(numbers)]
    return [*tests, (_RETURN, 0, 0, action)]


def _special(column: int) -> list[_Line]:
    """Calls that depend on an argument: no executable memory, no flag set, no other process's limits."""
    denied = _ERRNO | errno.EPERM
    lines: list[_Line] = []
    for name in ("mmap", "mprotect"):
        lines += _when(_SPECIAL[name][column], 2, (_ANY_BIT, 0, 1, _PROT_EXEC), denied, _ALLOW)
    lines += _when(_SPECIAL["fcntl"][column], 1, (_EQUAL, 0, 1, _F_GETFD), _ALLOW, None)
    lines += _when(_SPECIAL["fcntl"][column], 1, (_EQUAL, 0, 1, _F_GETFL), _ALLOW, denied)
    lines += _when(_SPECIAL["prlimit64"][column], 0, (_EQUAL, 0, 1, 0), denied, _KILL)
    return lines


def _when(number: int | None, argument: int, test: _Line, then: int, otherwise: int | None) -> list[_Line]:
    """For call `number`, test the low word of an argument; without `otherwise` the lines that follow decide."""
    assert number is not None
    body: list[_Line] = [(_LOAD, 0, 0, 16 + 8 * argument), test, (_RETURN, 0, 0, then)]
    body += [(_RETURN, 0, 0, otherwise)] if otherwise is not None else [(_LOAD, 0, 0, _NUMBER)]
    return [(_EQUAL, 0, len(body), number), *body]
