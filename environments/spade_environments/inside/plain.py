"""The child of a machine that has none of the kernel's layers: an interpreter of its own, and limits; level D."""

from __future__ import annotations

import json
import os
import resource
import sys

from . import determinism, imports, worker

__all__ = ["READY", "main"]

READY = b"D"
"""What the child says once its limits are on: the level that it has."""

_CHANNEL, _NOBODY = 3, 65534


def main(channel: int, options: str) -> None:
    """Serve one episode on the descriptor `channel` until the host hangs up."""
    settings = json.loads(options)
    imports.preload(settings["extra_modules"], settings["numpy_folder"])
    determinism.install()
    imports.guard_imports(settings["extra_modules"])
    sys.argv[:] = sys.orig_argv[:] = []
    _limit(settings["cpu_seconds"])
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    os.dup2(channel, _CHANNEL)
    os.closerange(_CHANNEL + 1, 256)
    worker.send(_CHANNEL, READY)
    worker.serve(_CHANNEL)


def _limit(cpu_seconds: int) -> None:
    """Limits that every system of the POSIX family keeps; memory is not among them: macOS keeps no limit on it."""
    for kind, value in {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: 16}.items():
        resource.setrlimit(kind, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
