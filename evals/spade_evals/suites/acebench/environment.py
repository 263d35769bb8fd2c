"""Where the classes of ACEBench's agent scenarios live: evalscope, alone in a folder, and no dependency of it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from spade_agents.errors import InfrastructureError
from spade_evals.suites.installed import cache_folder, install_once, installed, run_installer

__all__ = ["VERSION", "evalscope_folder", "scenarios_digest", "scenarios_folder", "set_up"]

VERSION = "1.14.1"
_BELOW = Path("evalscope") / "third_party" / "acebench"


def evalscope_folder() -> Path:
    """Where it is installed."""
    return cache_folder(f"evalscope-{VERSION}")


def scenarios_folder() -> Path | None:
    """The package of scenario classes, once it was set up to the end."""
    folder = evalscope_folder()
    return folder / _BELOW if installed(folder) else None


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
    return install_once(evalscope_folder(), _install)


def _install(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run_installer(
        [*command, "--target", str(folder), f"evalscope=={VERSION}"],
        failed=f"evalscope could not be installed in {folder}",
    )
    if not (folder / _BELOW / "en").is_dir():
        raise InfrastructureError(
            f"evalscope {VERSION} in {folder} has no {_BELOW / 'en'}; remove the folder, try again"
        )
