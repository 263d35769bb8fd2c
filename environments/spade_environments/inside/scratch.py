"""Removing the scratch folder of a program, whatever the program has left in it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["remove"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep, closed or full of links it is; nobody else may be at work.

    It goes down and up by one open folder at a time, so that no path, no stack and no number of descriptors grows.

    Raises:
        OSError: something in it cannot be removed.
    """
    here = os.open(folder, _FOLDER)
    try:
        left, above = _folders_left(here), list[list[str]]()
        while left or above:
            if left:
                os.chmod(left[-1], 0o700, dir_fd=here)
                here = _moved(here, left[-1])
                above.append(left)
                left = _folders_left(here)
            else:
                here = _moved(here, "..")
                left = above.pop()
                os.rmdir(left.pop(), dir_fd=here)
    finally:
        os.close(here)
    folder.rmdir()


def _moved(here: int, name: str) -> int:
    """The folder `name` of the open folder `here`, opened in its place."""
    there = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _folders_left(here: int) -> list[str]:
    """Unlink what is not a folder; the names of the folders."""
    found = []
    with os.scandir(here) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=here)
    return found
