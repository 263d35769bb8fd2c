"""Runs a program and ends it, children included, once its own standard input closes: when who started it is gone."""

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
    child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, process_group=0)
    threading.Thread(target=_watch, args=[child], daemon=True).start()
    code = child.wait()
    _kill(child)
    return code if code >= 0 else 128 - code


def _watch(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        pass
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
