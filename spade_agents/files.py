"""Files that are written whole or not at all, also in a kill, a full disk or a power cut; and read to an end."""

from __future__ import annotations

import os
from pathlib import Path

from spade_agents.errors import UsageError

__all__ = ["plain_file", "write_whole"]


def plain_file(path: Path) -> Path:
    """The path of a file that ends; one that is not there is let pass.

    Raises:
        UsageError: a pipe or a device, which would be read without an end, or a folder.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no plain file; wanted one")
    return path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is either as it was (or absent) or complete; what could not be written leaves no trace.

    Raises:
        OSError: no room, no right, or no such folder.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
