"""The zygote of code tools: forks one child for each program, which is given its own streams, memory and CPU time."""

from __future__ import annotations

import builtins
import json
import os
import socket
import sys
from _sitebuiltins import Quitter
from dataclasses import replace
from typing import Any

from . import code, imports, lockdown, threads
from .zygote import Zygote

__all__ = ["CodeZygote", "main"]

_STACK = 64 * 1024 * 1024
# Programs recurse deeply, through cached functions too; it counts as memory where it is used.


def main(control: int, options: str) -> None:
    """Serve fork and kill requests on the descriptor `control` until its other end is closed."""
    os.set_inheritable(control, False)
    settings = json.loads(options)
    lockdown.die_with_parent()
    imports.preload_for_code(settings["extra_modules"], settings["numpy_folder"])
    threads.run_threads_at_once()
    builtins.exit, builtins.quit = Quitter("exit", ""), Quitter("quit", "")  # as a Python that is not bare has them
    imports.guard_imports((*imports.CODE_MODULES, *settings["extra_modules"]), of=imports.PROGRAM)
    sys.argv[:] = sys.orig_argv[:] = []
    policy = lockdown.Policy.of(memory_bytes=0, cpu_seconds=0, layers=settings["layers"])
    with socket.socket(fileno=control) as channel:
        CodeZygote(channel, policy).run_sealed()


class CodeZygote(Zygote):
    """A zygote whose requests say what each child may use."""

    def shut_in(self, request: dict[str, Any], descriptors: list[int], parent: int) -> str:
        channel, stdin, stdout, stderr = descriptors
        _remember_stdin(stdin)
        policy = replace(
            self.policy,
            memory_bytes=request["memory"],
            cpu_seconds=request["cpu"],
            file_bytes=request["flood"],
            stack_bytes=_STACK,
        )
        return lockdown.shut_in(channel, (stdin, stdout, stderr), parent, policy)

    def live(self) -> None:
        code.run()


def _remember_stdin(descriptor: int) -> None:
    """Have `os.fstat(0)` go on answering: the C library asks by a call that takes a path too, and so is refused."""
    known, real = os.fstat(descriptor), os.fstat
    os.fstat = lambda fd: known if fd == 0 else real(fd)
