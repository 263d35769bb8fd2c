"""`spade doctor`: what this machine offers, told honestly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spade_agents.cli.output import print_json, tell

if TYPE_CHECKING:
    from spade_environments.sandbox import LocalSandboxSettings

__all__ = ["doctor", "sandbox_facts"]

_PACKAGES = ("torch", "transformers", "deepspeed", "numpy", "pydantic", "msgspec", "mcp")


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False) -> None:
    """Tell what this machine offers.

    Python, packages, cores, the compiler, and how well the sandbox shuts environments in here: about twenty things are
    attempted in real children, and the level, from A to D, is told with what it does not stop.

    Exit code: 0 at levels A and B, at which runs train; 1 at C and D, at which they refuse to; 3 no sandbox opens.
    """
    facts = _facts()
    if as_json:
        print_json(facts)
    else:
        tell("\n".join([*_lines(facts), *_sandbox_lines(facts["sandbox"])]))
    raise typer.Exit(_exit_code(facts["sandbox"]))


def _facts() -> dict[str, Any]:
    import asyncio
    import os
    import platform
    import shutil
    import sys

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "compiler": shutil.which("g++") or shutil.which("c++") or "none found: DeepSpeed cannot compile its operators",
        "packages": {name: _version(name) for name in _PACKAGES},
        "sandbox": asyncio.run(sandbox_facts(system=sys.platform, machine=platform.machine())),
    }


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


async def sandbox_facts(
    settings: LocalSandboxSettings | None = None, *, system: str = "linux", machine: str = "x86_64"
) -> dict[str, Any]:
    """At which level the sandbox comes up, what was attempted in it, and what its level does not stop.

    Args:
        settings: of the sandbox; the usual ones unless given.
        system: as `sys.platform` names it.
        machine: as `platform.machine()` names it.
    """
    from spade_environments import HostFault
    from spade_environments.sandbox.levels import level_named, machine_limits
    from spade_environments.sandbox.probe import probe

    warning = machine_limits(system, machine).warning
    try:
        found = await probe(settings, system=system)
    except (HostFault, OSError) as error:
        return {"works": False, "level": None, "error": str(error), "warning": warning}
    level = level_named(found.level)
    return {
        "works": True,
        "level": level.name,
        "means": level.holds,
        "warning": warning,
        "attempts": [{"name": a.name, "refused": a.held, "outcome": a.outcome} for a in found.attempts],
        "not_stopped": list(level.not_stopped),
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    return [f"{name:<10} {_told(value)}" for name, value in facts.items() if name != "sandbox"]


def _sandbox_lines(sandbox: dict[str, Any]) -> list[str]:
    """The sandbox for a person: its level, every attempt, and what the level does not stop."""
    warning = [f"  warning: {sandbox['warning']}"] if sandbox["warning"] else []
    if not sandbox["works"]:
        return [f"sandbox    none: {sandbox['error']}", *warning]
    attempts = sandbox["attempts"]
    held = sum(attempt["refused"] for attempt in attempts)
    return [
        f"sandbox    level {sandbox['level']}: {sandbox['means']}",
        *warning,
        f"attempts   {held} of {len(attempts)} were stopped",
        *(f"  {_stopped(attempt):<12} {attempt['name']}: {attempt['outcome']}" for attempt in attempts),
        f"level {sandbox['level']} does not stop an environment that wants to",
        *(f"  - {thing}" for thing in sandbox["not_stopped"]),
        *_advice(sandbox),
    ]


def _stopped(attempt: dict[str, Any]) -> str:
    return "stopped" if attempt["refused"] else "NOT stopped"


def _advice(sandbox: dict[str, Any]) -> list[str]:
    from spade_environments.sandbox.levels import DEGRADED

    if sandbox["level"] not in DEGRADED:
        return []
    return ["Nothing is trained at this level unless sandbox.allow_degraded is true."]


def _exit_code(sandbox: dict[str, Any]) -> int:
    from spade_agents.cli.failures import FAILED, OK, UNDECIDED
    from spade_environments.sandbox.levels import DEGRADED

    if not sandbox["works"]:
        return UNDECIDED
    return FAILED if sandbox["level"] in DEGRADED else OK


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(part)}" for name, part in value.items())
    return "not installed" if value is None else str(value)
