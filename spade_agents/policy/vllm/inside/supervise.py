"""Runs a program and ends it, children included, once its own standard input closes, or at a signal to end itself.

Standard input closes when who started it is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

GRACE_SECONDS = 10.0


def main(arguments: list[str]) -> int:
    """Run `arguments` until the program ends, or until standard input does; nothing that it started outlives it."""
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: asked.set())
    child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, process_group=0)
    threading.Thread(target=_watch, args=[asked], daemon=True).start()
    threading.Thread(target=_end, args=[asked, child], daemon=True).start()
    code = child.wait()
    _kill(child)
    return code if code >= 0 else 128 - code


def _watch(asked: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    asked.set()


def _end(asked: threading.Event, child: subprocess.Popen[bytes]) -> None:
    """Once it is asked for: have the program end itself, or end it."""
    asked.wait()
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_SECONDS)
    _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End what is left of the program's process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
