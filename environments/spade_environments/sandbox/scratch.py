"""A scratch folder for a program in a jail, and its removal whatever the program has left in it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["remove", "scratch_folder"]


@contextlib.contextmanager
def scratch_folder(given: Path | None, owner: int | None) -> Iterator[Path]:
    """`given`, which is kept, or a new folder that is removed at the end; it belongs to `owner` from now on.

    Raises:
        OSError: it cannot be made or given away.
    """
    folder = Path(tempfile.mkdtemp(prefix="spade-jail-")) if given is None else given
    try:
        if owner is not None:
            os.chown(folder, owner, owner)
        yield folder
    finally:
        if given is None:
            remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep, closed or full of links it is.

    Folders below it are moved up to it before they are emptied, so that no path grows long.

    Raises:
        OSError: something in it cannot be removed.
    """
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        moved = 0
        while names := _folders_left(root):
            for name in names:
                moved = _empty(root, name, moved)
    finally:
        os.close(root)
    folder.rmdir()


def _folders_left(root: int) -> list[str]:
    """Unlink what is not a folder; the names of the folders."""
    found = []
    with os.scandir(root) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=root)
    return found


def _empty(root: int, name: str, moved: int) -> int:
    """Unlink the files of one folder of `root`, move its folders up to `root`, and remove it."""
    os.chmod(name, 0o700, dir_fd=root)
    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
    try:
        for inner in _folders_left(below):
            moved += 1
            os.chmod(inner, 0o700, dir_fd=below)  # to move a folder, it must be writable itself
            os.rename(inner, f".spade-moved-{os.getpid()}-{moved}", src_dir_fd=below, dst_dir_fd=root)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=root)
    return moved
