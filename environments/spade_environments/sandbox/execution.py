"""What comes of running a program once: its outcome, what it wrote, and what it took."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CodeJob", "Execution", "ExecutionOutcome"]


class ExecutionOutcome(StrEnum):
    """How a program ended; the closed set."""

    OK = "ok"
    """Status 0."""
    ERROR = "error"
    """An exception that it did not catch."""
    EXIT = "exit"
    """Another status than 0, without an exception."""
    TIMEOUT_CPU = "timeout_cpu"
    TIMEOUT_WALL = "timeout_wall"
    MEMORY = "memory"
    OUTPUT = "output"
    """It wrote more to one stream or file, or in sum, than it may."""
    CRASH = "crash"
    """A signal ended it."""
    SYSCALL = "syscall"
    """It made a system call that kills."""
    PROTOCOL = "protocol"
    """It wrote where only the sandbox writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeJob:
    """One Python program and what it may use.

    Attributes:
        code: its source.
        stdin: its whole input.
        timeout: CPU seconds.
        wall: wall seconds.
        memory: bytes beyond what the interpreter starts with.
    """

    code: str
    stdin: bytes
    timeout: float
    wall: float
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of a program.

    Attributes:
        outcome: how it ended.
        exit_code: its status; the negative number of the signal that ended it; `None` where nobody can tell.
        stdout: what was kept of it (the first bytes), as UTF-8, with a replacement for what is not.
        stderr: the same.
        stdout_bytes: bytes written, kept or not.
        stderr_bytes: the same.
        truncated: whether either stream was cut.
        error: the end of the traceback, or in words why it was ended; empty when the outcome is `ok`.
        cpu_seconds: CPU time of all its threads and processes.
        wall_seconds: from its start to its end.
    """

    outcome: ExecutionOutcome
    exit_code: int | None
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    truncated: bool
    error: str
    cpu_seconds: float
    wall_seconds: float

    @property
    def ok(self) -> bool:
        """Whether it ran to its end with status 0."""
        return self.outcome is ExecutionOutcome.OK
