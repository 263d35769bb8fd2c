"""The file and network layer: a Landlock ruleset, which refuses all that it handles and no rule gives back."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

__all__ = ["SCOPES", "TRUNCATE", "restrict", "version"]

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
# Number of file access rights since each version of the interface.
_TCP_RIGHTS, _SCOPES = 0b11, 0b11
TRUNCATE, SCOPES = 3, 6
"""Since which version cutting a file short, and signals outward, are handled."""
_EXECUTE, _WRITE, _READ, _LIST, _CUT = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_READ_ONLY = _EXECUTE | _READ | _LIST
_OF_A_FILE = _EXECUTE | _WRITE | _READ | _CUT
_SPECIAL_FILES = 1 << 6 | 1 << 9 | 1 << 11 | 1 << 15
# Devices and sockets: made, or driven by ioctl.
_BENEATH = 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """The kernel's Landlock version; 0 where it has none."""
    return max(0, int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))


def restrict(known: int, readable: Iterable[str] = (), writable: Iterable[str] = ()) -> None:
    """Refuse this process every file, TCP port and signal outward that version `known` can refuse.

    Args:
        known: the version to use.
        readable: files and folders that may be read and executed all the same, with all beneath them.
        writable: files and folders in which everything may be done, but for devices and sockets.

    Raises:
        OSError: the kernel refused it; no_new_privs must be set. Or a path cannot be opened.
    """
    rights = (1 << max(count for since, count in _FILE_RIGHTS.items() if since <= known)) - 1
    ruleset = _Ruleset(rights, _TCP_RIGHTS if known >= 4 else 0, _SCOPES if known >= SCOPES else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    descriptor = _libc.syscall(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused a ruleset")
    try:
        for path in readable:
            _allow(descriptor, path, _READ_ONLY & rights)
        for path in writable:
            _allow(descriptor, path, rights & ~_SPECIAL_FILES)
        if _libc.syscall(_RESTRICT, descriptor, ctypes.c_uint32(0)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"Landlock refused to restrict: {os.strerror(number)}")
    finally:
        os.close(descriptor)


def _allow(ruleset: int, path: str, rights: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= _OF_A_FILE
        rule = _Beneath(rights, folder)
        if _libc.syscall(_ADD_RULE, ruleset, _BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"Landlock refused a rule: {os.strerror(number)}", path)
    finally:
        os.close(folder)
