"""`spade doctor`: what this machine offers, told honestly."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

__all__ = ["doctor", "sandbox_facts"]

_PACKAGES = ("torch", "transformers", "deepspeed", "numpy", "pydantic", "msgspec", "mcp")

_LEVELS = {
    "A": "process, limits, seccomp and Landlock",
    "B": "process, limits and seccomp; files stay readable",
    "C": "process, limits and Landlock; system calls stay open",
    "D": "process and limits only: no kernel lockdown, run nothing here that you distrust",
    "none": "no isolation at all",
}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False) -> None:
    """Tell what this machine offers.

    Python, packages, cores, the compiler, and how well the sandbox shuts environments in here.

    Exit code: 0 the sandbox works, 3 it cannot be opened here.
    """
    from spade_agents.cli.failures import OK, UNDECIDED

    facts = _facts()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        for name, value in facts.items():
            typer.echo(f"{name:<10} {_told(value)}")
    raise typer.Exit(OK if facts["sandbox"]["works"] else UNDECIDED)


def _facts() -> dict[str, Any]:
    import asyncio
    import os
    import platform
    import shutil

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "compiler": shutil.which("g++") or shutil.which("c++") or "none found: DeepSpeed cannot compile its operators",
        "packages": {name: _version(name) for name in _PACKAGES},
        "sandbox": asyncio.run(sandbox_facts()),
    }


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


async def sandbox_facts() -> dict[str, Any]:
    """Whether the sandbox opens here, at which level, and what that level means."""
    from spade_environments import HostFault
    from spade_environments.sandbox import open_sandbox

    try:
        async with open_sandbox() as sandbox:
            level = str(sandbox.level)
            return {"works": True, "level": level, "means": _LEVELS.get(level, "unknown to this version")}
    except (HostFault, OSError) as error:
        return {"works": False, "level": None, "error": str(error)}


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(part)}" for name, part in value.items())
    return "not installed" if value is None else str(value)
