"""What runs inside a sandbox of the E2B service: one program in a process of its own, with input, limits and a status.

Its source is sent there; it is never imported here. It needs nothing but a Python of its own.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]

_START = """
import linecache, signal, sys, traceback, types
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
source = open("main.py", encoding="utf-8", errors="surrogateescape").read()
linecache.cache["main.py"] = (len(source), None, source.splitlines(True), "main.py")
sys.argv[:] = ["main.py"]
sys.excepthook = lambda kind, error, trace: traceback.print_exception(kind, error, trace and trace.tb_next)
module = sys.modules["__main__"] = types.ModuleType("__main__")
module.__file__ = "main.py"
exec(compile(source, "main.py", "exec"), vars(module))
"""
_POLL = 0.01


def main(job: dict[str, Any]) -> None:
    """Run the program and print one line that tells of it, between two marks that nobody else knows."""
    print("\n" + job["mark"] + json.dumps(_run(job)) + job["mark"], flush=True)  # noqa: T201


def _run(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.py").write_bytes(base64.b64decode(job["code"]))
        (folder / "stdin").write_bytes(base64.b64decode(job["stdin"]))
        found = _watch(_start(folder, job["limits"]), job)
        for stream in ("stdout", "stderr"):  # files, so that the program cannot write the line that tells of it
            with (folder / stream).open("rb") as file:
                found[stream] = base64.b64encode(file.read(job["output"])).decode()
            found[f"{stream}_bytes"] = (folder / stream).stat().st_size
    return found


def _start(folder: Path, limits: dict[str, int]) -> int:
    def limit() -> None:
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    with (
        (folder / "stdin").open("rb") as stdin,
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
    ):
        command = [sys.executable, "-I", "-X", "utf8", "-c", _START]
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env={}, preexec_fn=limit,  # noqa: PLW1509
            start_new_session=True,
        ).pid  # fmt: skip


def _watch(process: int, job: dict[str, Any]) -> dict[str, Any]:
    """Wait for its end, or bring it about at a limit."""
    started, stopped = time.monotonic(), ""
    while True:
        pid, status, usage = os.wait4(process, os.WNOHANG)
        wall = time.monotonic() - started
        if pid:
            break
        if not stopped and time.clock_gettime((~process << 3) | 2) > job["timeout"]:
            stopped = "timeout_cpu"
        elif not stopped and wall > job["wall"]:
            stopped = "timeout_wall"
        if stopped:
            os.killpg(process, signal.SIGKILL)
        time.sleep(_POLL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # what it has started
    cpu = usage.ru_utime + usage.ru_stime
    return {"code": os.waitstatus_to_exitcode(status), "stopped": stopped, "cpu": cpu, "wall": wall}
