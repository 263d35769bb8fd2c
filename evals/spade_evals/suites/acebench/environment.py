"""Where the classes of ACEBench's agent scenarios live: evalscope, alone in a folder, and no dependency of it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from spade_agents.errors import InfrastructureError

__all__ = ["VERSION", "evalscope_folder", "scenarios_digest", "scenarios_folder", "set_up"]

VERSION = "1.14.1"
_BELOW = Path("evalscope") / "third_party" / "acebench"


def evalscope_folder() -> Path:
    """Where it is installed; `XDG_CACHE_HOME` decides."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spade-agents" / f"evalscope-{VERSION}"


def scenarios_folder() -> Path | None:
    """The package of scenario classes, once it was set up to the end."""
    folder = evalscope_folder()
    return folder / _BELOW if (folder / "READY").is_file() else None


def scenarios_digest() -> str:
    """Sha256 of the English classes, which decide what a dialogue leaves; empty where they are not installed."""
    folder = scenarios_folder()
    if folder is None:
        return ""
    digest = hashlib.sha256()
    for path in sorted((folder / "en").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def set_up() -> Path:
    """Install it (about 35 MB); what was not finished is removed first.

    Raises:
        InfrastructureError: the package could not be installed.
    """
    folder = evalscope_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if scenarios_folder() is None:
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder)
    return folder


def _install(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        subprocess.run([*command, "--target", str(folder), f"evalscope=={VERSION}"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InfrastructureError(
            f"evalscope could not be installed in {folder}: {error}; what pip said stands above"
        ) from error
    if not (folder / _BELOW / "en").is_dir():
        raise InfrastructureError(
            f"evalscope {VERSION} in {folder} has no {_BELOW / 'en'}; remove the folder, try again"
        )
    (folder / "READY").touch()
