"""Packages that live in a folder of their own in the cache, since their pins would break this environment's."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from spade_agents.errors import InfrastructureError

__all__ = ["cache_folder", "install_once", "installed", "run_installer"]

_MARK = "READY"


def cache_folder(name: str) -> Path:
    """Where the package `name` is installed; `XDG_CACHE_HOME` decides."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spade-agents" / name


def installed(folder: Path) -> bool:
    """Whether it was installed to the end."""
    return (folder / _MARK).is_file()


def install_once(folder: Path, install: Callable[[Path], None]) -> Path:
    """Have `install` fill the folder, one process at a time; what was not finished is removed first.

    Raises:
        InfrastructureError: `install` could not.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed(folder):
            shutil.rmtree(folder, ignore_errors=True)
            install(folder)
            (folder / _MARK).touch()
    return folder


def run_installer(command: Sequence[str], *, failed: str, env: Mapping[str, str] | None = None) -> None:
    """Run one command of an installation.

    Args:
        command: program and arguments.
        failed: what could not be done if it fails.
        env: its environment; this process's if left out.

    Raises:
        InfrastructureError: it could not be started, or failed.
    """
    try:
        subprocess.run(command, check=True, env=env)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InfrastructureError(f"{failed}: {error}; what it said stands above") from error
