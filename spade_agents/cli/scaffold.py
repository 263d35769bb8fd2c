"""The start of an environment: a source file with marked places to fill in, and its spec."""

from __future__ import annotations

import keyword
import re
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from spade_agents.errors import UsageError

__all__ = ["Base", "Scaffold", "scaffold_source", "write_scaffold"]


class Base(StrEnum):
    """Which base of the contract an environment derives from."""

    TEXT = "text"
    TOOL = "tool"


class Scaffold(NamedTuple):
    """The two files of a loose environment."""

    source: Path
    spec: Path


_SKILLS = {Base.TEXT: "logical deduction", Base.TOOL: "state modification"}
_SPEC = """{{
  "name": "{name}",
  "skill": "{skill}",
  "domain": "general",
  "difficulty": 0.3,
  "hint": null
}}
"""


def scaffold_source(name: str, base: Base) -> str:
    """The source to start from: it loads, and says at each marked place what is to be written there.

    Raises:
        UsageError: a name that is not plain snake_case.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} cannot name an environment; wanted snake_case, such as tidy_shelf")
    template = resources.files("spade_agents.cli").joinpath("scaffolds", f"{base.value}.py.txt")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    return template.read_text(encoding="utf-8").replace("CLASS_NAME", class_name)


def write_scaffold(name: str, base: Base, folder: Path) -> Scaffold:
    """Write `NAME.py` and `NAME.spec.json`; both are new or nothing is written. The folder is made if need be.

    Raises:
        UsageError: an unfit name, no folder that can be written to, or a file of that name that is there already.
    """
    source = scaffold_source(name, base)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give another with --out")
    files = Scaffold(folder / f"{name}.py", folder / f"{name}.spec.json")
    for path in files:
        if path.exists():
            raise UsageError(f"{path} exists and is left as it is; choose another name or another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.spec.write_text(_SPEC.format(name=name, skill=_SKILLS[base]), encoding="utf-8")
        files.source.write_text(source, encoding="utf-8")
    except OSError as error:
        for path in files:
            path.unlink(missing_ok=True)
        raise UsageError(f"{folder} cannot be written to: {error.strerror}") from error
    return files
