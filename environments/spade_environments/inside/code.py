"""The code child: one Python program as `__main__`, its streams on descriptors 0 to 2, its exception told last."""

from __future__ import annotations

import atexit
import io
import json
import linecache
import os
import signal
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from . import imports, lockdown, worker

__all__ = ["FILE", "TAIL", "run"]

FILE = "main.py"
"""What a program's file is called in its tracebacks."""
TAIL = 2000
"""Characters of a traceback that are told."""

# Bound early: the program may replace these names, and then only harms its own report.
_dumps, _exit, _print_exception, _format_exception = (
    json.dumps,
    os._exit,
    traceback.print_exception,
    traceback.format_exception,
)


def run() -> NoReturn:
    """Read the program from the channel, run it, report an exception, and end with its status."""
    frame = worker.receive(lockdown.CHANNEL)
    if frame is None:
        _exit(1)
    source = frame.decode("utf-8", "surrogatepass")
    _open_streams()
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # its state came with the fork; `random` looks after itself
    status, report = _finish(*_execute(source))
    if report:
        worker.send(lockdown.CHANNEL, _dumps(report).encode())
    _exit(status)


def _open_streams() -> None:
    source = io.TextIOWrapper(open(0, "rb", closefd=False), "utf-8")  # noqa: SIM115
    streams = {"stdin": source, "stdout": _writer(1, "strict"), "stderr": _writer(2, "backslashreplace", by_line=True)}
    for name, stream in streams.items():
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _writer(descriptor: int, errors: str, *, by_line: bool = False) -> io.TextIOWrapper:
    raw = open(descriptor, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=by_line)


def _execute(source: str) -> tuple[int, dict[str, str]]:
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = sys.modules["__main__"] = ModuleType(imports.PROGRAM)
    module.__file__ = FILE
    sys.argv[:] = [FILE]
    sys.setrecursionlimit(1000)
    try:
        exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException as error:
        return _ended_by(error)
    return 0, {}


def _ended_by(error: BaseException) -> tuple[int, dict[str, str]]:
    if isinstance(error, SystemExit):
        return _exit_status(error.code), {}
    error.__traceback__ = _own_part(error.__traceback__)
    try:
        _print_exception(error, file=sys.__stderr__)
        told = "".join(_format_exception(error))[-TAIL:]
    except BaseException:  # an exception that cannot be shown
        told = type(error).__name__
    return 1, {"kind": "memory" if isinstance(error, MemoryError) else "error", "text": told}


def _exit_status(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.__stderr__)
    return 1


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's own first line on."""
    while trace is not None and trace.tb_frame.f_code.co_filename != FILE:
        trace = trace.tb_next
    return trace


def _finish(status: int, report: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Run what the program has left for its end, and write out what it has printed."""
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.__stdout__, sys.__stderr__):
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException as error:
        return (status, report) if report else _ended_by(error)
    return status, report
