"""The file and network layer of a child: a Landlock ruleset without a rule, which refuses all that it handles."""

from __future__ import annotations

import ctypes
import os

__all__ = ["restrict", "version"]

_CREATE, _RESTRICT = 444, 446
_VERSION_FLAG = 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
# Number of file access rights since each version of the interface.
_TCP_RIGHTS, _SCOPES = 0b11, 0b11
_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def version() -> int:
    """The kernel's Landlock version; 0 where it has none."""
    return max(0, int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))


def restrict(known: int) -> None:
    """Refuse this process every file, TCP port and signal outward that version `known` can refuse.

    Raises:
        OSError: the kernel refused it; no_new_privs must be set.
    """
    rights = max(count for since, count in _FILE_RIGHTS.items() if since <= known)
    ruleset = _Ruleset((1 << rights) - 1, _TCP_RIGHTS if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    descriptor = _libc.syscall(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused a ruleset")
    refused = _libc.syscall(_RESTRICT, descriptor, ctypes.c_uint32(0)) != 0
    number = ctypes.get_errno()
    os.close(descriptor)
    if refused:
        raise OSError(number, f"Landlock refused to restrict: {os.strerror(number)}")
