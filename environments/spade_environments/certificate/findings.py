"""How a gate says that it did not pass, and what a designer is told about a fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spade_environments.faults import EnvironmentFault, FaultKind, SandboxFault
from spade_environments.types import Action, Reply

__all__ = ["Rejection", "Unproven", "fault_evidence", "fault_repair", "is_ours", "quoted", "shown"]

_OURS = (FaultKind.HOST_FAULT, FaultKind.SANDBOX_SETUP)

_ADVICE = {
    FaultKind.REJECT: "Import and use only what is allowed.",
    FaultKind.TIMEOUT_CPU: "Make it cheaper: no unbounded loop, no exhaustive search over a large space.",
    FaultKind.TIMEOUT_WALL: "Never sleep or wait for anything.",
    FaultKind.BUDGET_EPISODE: "Make an episode cheaper: no repeated search in step.",
    FaultKind.MEMORY: "Hold less in memory: no list that grows without bound.",
    FaultKind.CRASH: "The interpreter died: avoid deep recursion and huge values.",
    FaultKind.EXIT: "Never leave the process; end an episode with terminated=True.",
    FaultKind.SYSCALL: "No files, network, threads or processes: keep everything in attributes.",
    FaultKind.PROTOCOL: "Return plain str, float in [0, 1], bool and JSON-able values of moderate size.",
    FaultKind.ENV_ERROR: "No method may raise on any action: read numbers inside try and except (isdigit is no guard), "
    "and answer a bad action with a message or a ToolError.",
}


class Rejection(Exception):  # noqa: N818 (a finding, no error)
    """The environment does not pass: `evidence` for a person, `repair` for the designer."""

    def __init__(self, evidence: str, repair: str) -> None:
        super().__init__(evidence)
        self.evidence = evidence
        self.repair = f"{evidence[:1].upper()}{evidence[1:]}. {repair}"


class Unproven(Exception):  # noqa: N818 (a finding, no error)
    """An imported environment that brings no solution to prove it by."""


def is_ours(fault: SandboxFault) -> bool:
    """Whether a fault says nothing about the environment, whatever class it was raised as."""
    return not isinstance(fault, EnvironmentFault) or fault.kind in _OURS


def fault_evidence(fault: SandboxFault) -> str:
    """Kind, phase, seed and action of a fault, and its detail."""
    where = "".join(f", {note}" for note in getattr(fault, "__notes__", ()))
    return f"{fault.kind.value} in {fault.phase}{where}" + (f": {fault.detail}" if fault.detail else "")


def fault_repair(fault: SandboxFault) -> str:
    """What the designer is told to do about a fault of the environment."""
    return _ADVICE.get(fault.kind, "Mend what the message names.")


def quoted(text: str, limit: int = 120) -> str:
    """Text in quotes on one line, cut to `limit` characters."""
    line = " ".join(text.split())
    return f"{line[:limit]!r}" + (" …" if len(line) > limit else "")


def shown(action: Action) -> str:
    """An action as a person would write it."""
    if isinstance(action, Reply):
        return f"reply {quoted(action.text)}"
    return f"{action.name}({_arguments(action.arguments)})"


def _arguments(arguments: Mapping[str, Any]) -> str:
    text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return text if len(text) <= 160 else text[:160] + " …"
