"""The supervisor: a clean process between trainer and zygotes, which starts zygotes and outlives none of its duties."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from . import lockdown
from .attendant import Attendant

__all__ = ["BOOT", "FLAGS", "Supervisor", "main"]

FLAGS = ("-S", "-s", "-P", "-B")
"""Interpreter flags: no site, no user site, no implicit path. Not -I: it would ignore PYTHONHASHSEED, and the
environment is empty otherwise."""

BOOT = (
    "import sys; from importlib import util; folder, entry, control, *options = sys.argv[1:]; "
    "spec = util.spec_from_file_location('inside', folder + '/__init__.py', submodule_search_locations=[folder]); "
    "sys.modules['inside'] = package = util.module_from_spec(spec); spec.loader.exec_module(package); "
    "import importlib; importlib.import_module('inside.' + entry).main(int(control), *options)"
)
"""Runs `inside/ENTRY.py` from its folder as the top-level package `inside`, so that no host package is imported."""


def main(control: int) -> None:
    """Start a zygote for each request on the descriptor `control`; end with all of them once the trainer is gone."""
    os.set_inheritable(control, False)
    with socket.socket(fileno=control) as channel:
        Supervisor(channel).run()


class Supervisor(Attendant):
    """The zygotes' parent, and the parent of whatever a dead zygote leaves behind."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._zygotes: set[int] = set()
        lockdown.adopt_orphans()

    def serve(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self._start_zygote(request["entry"], request["environment"], request["options"], descriptors[0])

    def _start_zygote(self, entry: str, environment: dict[str, str], options: str, control: int) -> None:
        os.set_inheritable(control, True)
        folder = str(Path(__file__).parent)
        command = [sys.executable, *FLAGS, "-c", BOOT, folder, entry, str(control), options]
        self._zygotes.add(os.posix_spawn(sys.executable, command, environment))
        os.close(control)

    def reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                self._zygotes.discard(pid)
        for orphan in lockdown.children() - self._zygotes:
            os.kill(orphan, signal.SIGKILL)

    def end(self) -> None:
        """Kill every zygote, and then what it leaves to this process, until there is nothing left."""
        while children := lockdown.children():
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)
