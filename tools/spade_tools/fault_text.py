"""A `SandboxFault` read back from the text that the control plane tells of it."""

from __future__ import annotations

import re

from spade_environments import EnvironmentFault, FaultKind, HostFault, SandboxFault

__all__ = ["read_fault"]

_FAULT = re.compile(rf"(?P<kind>{'|'.join(FaultKind)}) in (?P<phase>\w+)(?:: (?P<detail>.*))?", re.DOTALL)


def read_fault(told: str | None, phase: str, *, environments: bool) -> SandboxFault:
    """The fault of which `told` is the text.

    Args:
        told: by the server; anything else than the text of a fault gives a `HostFault` that quotes it.
        phase: in which it came to light, where the text names none.
        environments: whether the environment is at fault, rather than the host.
    """
    found = _FAULT.fullmatch(told or "")
    if found is None:
        return HostFault(FaultKind.HOST_FAULT, phase, told or "the server gave no reason")
    made = EnvironmentFault if environments else HostFault
    return made(FaultKind(found["kind"]), found["phase"], found["detail"] or "")
