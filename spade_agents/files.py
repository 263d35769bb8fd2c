"""Files that are either whole or not there, also after a kill, a full disk or a power cut."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


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
