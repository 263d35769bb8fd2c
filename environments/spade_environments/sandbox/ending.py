"""How a child ended, as a fault: what its exit status and the host's own reasons say together."""

from __future__ import annotations

import signal

from spade_environments.faults import EnvironmentFault, FaultKind, HostFault, SandboxFault
from spade_environments.inside.lockdown import SETUP_FAILED
from spade_environments.limits import Limits
from spade_environments.sandbox.process import Ended

__all__ = ["Reason", "as_fault", "told_by"]

Reason = tuple[FaultKind, str]
"""A kind of fault and its detail."""

_OURS = (FaultKind.HOST_FAULT, FaultKind.SANDBOX_SETUP)


def as_fault(reason: Reason, phase: str) -> SandboxFault:
    """The exception for a reason: ours, or the environment's."""
    kind, detail = reason
    return (HostFault if kind in _OURS else EnvironmentFault)(kind, phase, detail)


def told_by(ended: Ended, limits: Limits, *, ready: bool, failure: str | None) -> Reason:
    """What an exit status says about a child that nobody stopped.

    Args:
        ended: what the zygote told of it.
        limits: the episode's.
        ready: whether it was shut in before it ended.
        failure: what the zygote said when it could not fork.
    """
    code = ended.code
    if code is None:
        return FaultKind.HOST_FAULT, failure or "the zygote was lost"
    if not ready:
        told = "a layer was refused" if code == SETUP_FAILED else f"status {code}"
        return FaultKind.SANDBOX_SETUP, f"the child ended before it was shut in ({told})"
    if code >= 0:
        return FaultKind.EXIT, f"the process ended with status {code}"
    if code == -signal.SIGSYS:
        return FaultKind.SYSCALL, "a system call that is not allowed"
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and ended.cpu >= limits.episode_cpu):
        return FaultKind.BUDGET_EPISODE, f"{ended.cpu:.1f} s of CPU; at most {limits.episode_cpu:g} an episode"
    if code == -signal.SIGKILL and not ended.killed:  # it can send no signal itself
        return FaultKind.HOST_FAULT, "the child was killed from outside; the machine may have run out of memory"
    if code == -signal.SIGKILL:
        return FaultKind.PROTOCOL, "the channel was closed"
    return FaultKind.CRASH, f"the process died of signal {-code} ({signal.strsignal(-code)})"
