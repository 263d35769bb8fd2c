"""What a person names as something to import: a file, a folder, or a class; files are read, never imported."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from spade_environments.loader import read_source
from spade_environments.spec import SpecError

__all__ = ["SourceFile", "source_files"]

_LONGEST = 1024
_FORMS = "give FILE.py, a folder, FILE.py:CLASS or package.module:CLASS"


class SourceFile(NamedTuple):
    """A Python file, and the class of it that was asked for (`None` for all of them)."""

    path: Path
    source: str
    class_name: str | None


def source_files(target: str) -> list[SourceFile]:
    """The files that `target` names: FILE.py, a folder, FILE.py:CLASS or package.module:CLASS.

    Raises:
        SpecError: there is no such file or module, or it cannot be read.
    """
    if len(target) > _LONGEST:
        raise SpecError(f"{target[:60]!r}… can be no path; {_FORMS}")
    path = Path(target)
    if target and path.is_dir():
        paths = sorted(found for found in path.rglob("*.py") if found.is_file())
        if not paths:
            raise SpecError(f"{path} holds no Python file; {_FORMS}")
        return [SourceFile(found, read_source(found), None) for found in paths]
    where, _, class_name = target.rpartition(":") if ":" in target else (target, "", "")
    if where.endswith(".py"):
        if not Path(where).exists():
            raise SpecError(f"there is no file {where}; check the path (it is taken from {Path.cwd()})")
        return [SourceFile(Path(where), read_source(Path(where)), class_name or None)]
    if not class_name or not all(part.isidentifier() for part in where.split(".")):
        raise SpecError(f"{target[:200]!r} names nothing to import; {_FORMS}")
    found = _module_file(where)
    return [SourceFile(found, read_source(found), class_name)]


def _module_file(name: str) -> Path:
    """The file of a module, found along the import path without running it or its packages."""
    places: list[str] | None = [str(Path.cwd()), *sys.path]
    origin: str | None = None
    for part in name.split("."):
        spec = None if places is None else PathFinder.find_spec(part, places)
        if spec is None:
            raise SpecError(f"there is no module {name!r} on the import path; {_FORMS}")
        places = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
        origin = spec.origin
    if origin is None or not origin.endswith(".py"):
        raise SpecError(f"the module {name!r} has no Python source; {_FORMS}")
    return Path(origin)
