"""The closed set of faults; each one masks its play, and none is ever a reward."""

from __future__ import annotations

from enum import StrEnum

from spade_environments.validation import clean_text

__all__ = ["EnvironmentFault", "FaultKind", "HostFault", "SandboxFault"]


class FaultKind(StrEnum):
    """What went wrong, seen from the host."""

    REJECT = "reject"
    TIMEOUT_CPU = "timeout_cpu"
    TIMEOUT_WALL = "timeout_wall"
    BUDGET_EPISODE = "budget_episode"
    MEMORY = "memory"
    CRASH = "crash"
    EXIT = "exit"
    SYSCALL = "syscall"
    PROTOCOL = "protocol"
    ENV_ERROR = "env_error"
    SANDBOX_SETUP = "sandbox_setup"
    HOST_FAULT = "host_fault"


class SandboxFault(Exception):
    """An episode that ended without an outcome.

    Attributes:
        kind: which fault.
        phase: `load`, `reset`, `step`, `solution` or `close`.
        detail: at most 500 characters for a person or a designer to read, cleaned as observations are.
    """

    def __init__(self, kind: FaultKind, phase: str, detail: str = "") -> None:
        detail = clean_text(detail)
        super().__init__(f"{kind.value} in {phase}" + (f": {detail}" if detail else ""))
        self.kind = kind
        self.phase = phase
        self.detail = detail[:500]

    def __reduce__(self) -> tuple[type[SandboxFault], tuple[FaultKind, str, str]]:
        """For a fault that crosses a process: an exception is otherwise made anew from its message alone."""
        return type(self), (self.kind, self.phase, self.detail)


class EnvironmentFault(SandboxFault):
    """The environment's own fault: it is retired, its play is missing."""


class HostFault(SandboxFault):
    """Our fault (supervisor, zygote or machine): retried, never counted against environment or agent."""
