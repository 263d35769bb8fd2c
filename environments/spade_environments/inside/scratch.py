"""The scratch folder of a program: how much lies in it, and removing it, whatever the program has left there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Usage", "remove", "usage"]

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


class Usage(NamedTuple):
    """Bytes on disk, and files and folders."""

    size: int
    files: int

    def passes(self, most: Usage) -> bool:
        """Whether either is more than `most`."""
        return self.size > most.size or self.files > most.files


def usage(folder: Path, most: Usage | None = None) -> Usage:
    """What lies in a folder, while the program may be at work in it; no link is followed.

    Args:
        folder: the folder.
        most: where to stop counting: what is returned then passes it.

    Raises:
        OSError: the folder itself cannot be opened.
    """
    here = os.open(folder, _FOLDER)
    try:
        found, left = _weighed(here, Usage(0, 0), most)
        above: list[list[str]] = []
        while (left or above) and not (most and found.passes(most)):
            if left:
                with contextlib.suppress(OSError):  # it is gone, or closed to this user
                    here = _moved(here, left.pop())
                    above.append(left)
                    found, left = _weighed(here, found, most)
            else:
                here = _moved(here, "..")
                left = above.pop()
    finally:
        os.close(here)
    return found


def _weighed(here: int, found: Usage, most: Usage | None) -> tuple[Usage, list[str]]:
    """`found` and what lies right in the open folder `here`; the names of its folders."""
    folders = []
    with os.scandir(here) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = Usage(found.size + entry.stat(follow_symlinks=False).st_blocks * 512, found.files + 1)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
            if most and found.passes(most):
                break
    return found, folders


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
