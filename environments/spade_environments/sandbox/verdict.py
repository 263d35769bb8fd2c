"""What a program's exit status says, together with the exception that it may have reported."""

from __future__ import annotations

import signal
from typing import NamedTuple

from spade_environments.sandbox.execution import ExecutionOutcome

__all__ = ["Report", "Verdict", "verdict"]


class Report(NamedTuple):
    """An exception that a program did not catch: `memory` or `error`, and the end of its traceback."""

    kind: str
    text: str


class Verdict(NamedTuple):
    """How a program ended, and why in words; empty for a program that ended well."""

    outcome: ExecutionOutcome
    error: str


def verdict(code: int, *, cpu: float, timeout: float, flood: int, report: Report | None) -> Verdict:
    """The outcome of a program that no host stopped.

    Args:
        code: its status, or the negative number of the signal that ended it.
        cpu: CPU seconds that it took.
        timeout: CPU seconds that it might take.
        flood: bytes that it might write to one stream.
        report: the exception, where it told of one.
    """
    if code == 0:
        return Verdict(ExecutionOutcome.OK, "")
    if code > 0 and report is not None:
        memory = report.kind == "memory"
        return Verdict(ExecutionOutcome.MEMORY if memory else ExecutionOutcome.ERROR, report.text)
    if code > 0:
        return Verdict(ExecutionOutcome.EXIT, f"the program ended with status {code}")
    if code == -signal.SIGSYS:
        return Verdict(ExecutionOutcome.SYSCALL, "a system call that is not allowed")
    if code == -signal.SIGXFSZ:
        return Verdict(ExecutionOutcome.OUTPUT, f"more than {flood} bytes written to one stream or file")
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu >= timeout):
        return Verdict(ExecutionOutcome.TIMEOUT_CPU, f"more than {timeout:g} s of CPU")
    return Verdict(ExecutionOutcome.CRASH, f"the process died of signal {-code} ({signal.strsignal(-code)})")
