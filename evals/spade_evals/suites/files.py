"""Files that only a user can supply: found by name below one folder, and read with their checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spade_agents.errors import UsageError

__all__ = ["DataFile", "find_file", "read_json_lines"]


class DataFile:
    """A file's bytes and their sha256."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = path.read_bytes()
        self.sha256 = hashlib.sha256(self.content).hexdigest()

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Objects of a JSON-lines file, with their line numbers.

        Raises:
            UsageError: a line that is no object.
        """
        for number, line in enumerate(self.content.decode("utf-8", "replace").split("\n"), start=1):
            if line.strip():
                yield number, _object(line, f"{self.path}, line {number}")


def find_file(folder: Path | None, names: Sequence[str]) -> Path | None:
    """The first file that fits one of the patterns `names`, in the folder or below it; earlier patterns first."""
    if folder is None or not folder.is_dir():
        return None
    for name in names:
        found = sorted(path for path in folder.rglob(name) if path.is_file())
        if found:
            return found[0]
    return None


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file."""
    return [row for _, row in DataFile(path).lines()]


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON ({error}); wanted one object a line") from error
    if not isinstance(row, dict):
        raise UsageError(f"{where} holds {type(row).__name__}; wanted an object")
    return row
