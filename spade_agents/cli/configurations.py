"""The configurations that travel with the package, found by name, and files found by path."""

from __future__ import annotations

from pathlib import Path

import spade_agents
from spade_agents.errors import UsageError

__all__ = ["PARTS", "configuration_path", "shipped_configurations"]

PARTS = frozenset({"deepspeed"})
"""Folders of files that are no runs by themselves."""


def shipped_configurations() -> dict[str, Path]:
    """Every shipped run by its name, such as `nano` or `ablations/no_memory`.

    They lie in the package once installed, beside it in a clone. What only other files extend is not among them.
    """
    package = Path(spade_agents.__file__).parent
    installed = package / "configs"
    folder = installed if installed.is_dir() else package.parent / "configs"
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*.toml")))
    return {str(path.with_suffix("")): folder / path for path in found if path.parts[0] not in PARTS}


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
