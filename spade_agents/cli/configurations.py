"""The configurations that travel with the package, found by name, and files found by path."""

from __future__ import annotations

from pathlib import Path

import spade_agents
from spade_agents.errors import UsageError

__all__ = ["configuration_path", "shipped_configurations"]


def shipped_configurations() -> dict[str, Path]:
    """Every shipped configuration by its name; they lie in the package once installed, beside it in a clone."""
    package = Path(spade_agents.__file__).parent
    installed = package / "configs"
    folder = installed if installed.is_dir() else package.parent / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def configuration_path(target: str) -> Path:
    """The file that `target` names: a path, or the name of a shipped configuration.

    Raises:
        UsageError: neither a file nor such a name.
    """
    path, shipped = Path(target), shipped_configurations()
    if path.is_file():
        return path
    if target in shipped:
        return shipped[target]
    raise UsageError(
        f"no configuration {target}: wanted a .toml file or one of {', '.join(shipped) or '(none shipped)'}"
    )
