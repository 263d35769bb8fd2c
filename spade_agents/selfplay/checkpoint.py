"""Checkpoints: written whole, marked STABLE last, verified when read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from spade_agents.errors import CheckpointError, InfrastructureError, SpadeError

__all__ = ["Checkpoint", "forget_after", "newest_stable", "prune", "save_checkpoint", "stable"]

STABLE = "STABLE"
_ROOM = 1 << 20
_NAME = re.compile(r"step-(0|[1-9][0-9]*)")
_OURS = re.compile(r"step-[0-9]+|\.step-[0-9]+\.draft")
"""Names of checkpoints, whole or not; whatever else a person keeps beside them is left alone."""


class _Marker(msgspec.Struct):
    """What STABLE holds: the digest of every file, by its path in the checkpoint."""

    sha256: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A finished checkpoint on disk: `step-N/` with `model/`, `engine/`, `state.json`, `memory.json` and `STABLE`."""

    path: Path

    @property
    def number(self) -> int:
        """The N of `step-N`: rollouts done, and one more once the run is finished."""
        return int(self.path.name.rpartition("-")[2])

    @property
    def model(self) -> Path:
        """A plain Hugging Face folder."""
        return self.path / "model"

    @property
    def engine(self) -> Path:
        """Optimiser and whatever else the training engine keeps."""
        return self.path / "engine"

    @property
    def state(self) -> Path:
        """The loop state."""
        return self.path / "state.json"

    @property
    def ahead(self) -> Path:
        """The next rollout, where it was sampled already; else there is no such file."""
        return self.path / "ahead.json.zst"

    @property
    def config(self) -> Path:
        """The resolved configuration that the run had."""
        return self.path / "config.toml"

    @property
    def memory(self) -> Path:
        """How far the run's memory had come."""
        return self.path / "memory.json"

    def read(self, file: Path) -> bytes:
        """One of its files.

        Raises:
            CheckpointError: it is not there.
        """
        try:
            return file.read_bytes()
        except OSError as error:
            raise CheckpointError(_spoilt(self.path, f"{file.name} cannot be read ({error.strerror})")) from error

    def verify(self) -> None:
        """Compare every file with the digest that STABLE holds.

        Raises:
            CheckpointError: a file is missing or was changed.
        """
        try:
            digests = msgspec.json.decode((self.path / STABLE).read_bytes(), type=_Marker).sha256
        except (OSError, msgspec.DecodeError) as error:
            raise CheckpointError(_spoilt(self.path, f"its STABLE marker cannot be read ({error})")) from error
        for name, digest in digests.items():
            file = self.path / name
            if not file.is_file():
                raise CheckpointError(_spoilt(self.path, f"{name} is missing"))
            if _digest(file) != digest:
                raise CheckpointError(_spoilt(self.path, f"{name} is not what was written"))


def save_checkpoint(folder: Path, number: int, write: Callable[[Checkpoint], None]) -> Checkpoint:
    """Write checkpoint `step-<number>`: all files and their digests reach the disk before it bears its name.

    A finished checkpoint of that number stays as it is: a run resumed from it comes here again with the same state,
    and there must be no moment without it.

    Args:
        folder: of the run's checkpoints.
        number: rollouts done.
        write: fills the (empty) folder it is given.

    Raises:
        InfrastructureError: the disk is full; what was written of it is removed again.
    """
    final = Checkpoint(path=folder / f"step-{number}")
    if (final.path / STABLE).exists():
        return final
    draft = Checkpoint(path=folder / f".step-{number}.draft")
    shutil.rmtree(draft.path, ignore_errors=True)
    draft.path.mkdir(parents=True)
    try:
        write(draft)
    except Exception as error:
        full = _is_full(folder)
        shutil.rmtree(draft.path, ignore_errors=True)
        if full and not isinstance(error, SpadeError):
            raise InfrastructureError(
                f"the checkpoint {final.path} cannot be written: there is no room left on its disk; make room and go "
                f"on by: spade train --resume {folder.parent}"
            ) from error
        raise
    written = sorted(draft.path.rglob("*"))
    files = [path for path in written if path.is_file()]
    with ThreadPoolExecutor(max_workers=1) as beside:  # the disk and a processor work at once
        digests = beside.map(_digest, files)
        for path in (*written, draft.path):  # folders too: a file that its folder does not list is lost with the power
            _flush(path)
        sha256 = {str(path.relative_to(draft.path)): digest for path, digest in zip(files, digests, strict=True)}
    shutil.rmtree(final.path, ignore_errors=True)
    draft.path.rename(final.path)
    _flush(folder)
    marker = final.path / f".{STABLE}"
    marker.write_text(json.dumps({"sha256": sha256}, indent=2) + "\n", encoding="utf-8")
    _flush(marker)
    marker.rename(final.path / STABLE)
    _flush(final.path)
    _flush(folder)
    return final


def newest_stable(folder: Path) -> Checkpoint:
    """The newest finished checkpoint, verified.

    Raises:
        CheckpointError: there is none, or its files are not what was written.
    """
    found = _stable(folder)
    if not found:
        raise CheckpointError(
            f"{folder} holds no finished checkpoint (step-N with a {STABLE} marker): the run ended before its first "
            "one; start it again with another --out"
        )
    found[-1].verify()
    return found[-1]


def stable(folder: Path, number: int) -> Checkpoint | None:
    """The finished checkpoint of that number, verified; `None` where there is none.

    Raises:
        CheckpointError: its files are not what was written.
    """
    found = [checkpoint for checkpoint in _stable(folder) if checkpoint.number == number]
    for checkpoint in found:
        checkpoint.verify()
    return found[0] if found else None


def forget_after(folder: Path, kept: Checkpoint) -> None:
    """Remove the finished checkpoints of higher numbers: the run goes on from `kept`."""
    for checkpoint in _stable(folder):
        if checkpoint.number > kept.number:
            _remove(checkpoint.path)


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` finished checkpoints, and drafts that a kill left."""
    stable = _stable(folder)
    kept = {checkpoint.path for checkpoint in stable[-keep:]}
    for path in list(folder.iterdir()):
        if path not in kept and _OURS.fullmatch(path.name) and path.is_dir():
            _remove(path)


def _remove(path: Path) -> None:
    """The marker goes first, so that a kill leaves nothing that claims to be whole."""
    (path / STABLE).unlink(missing_ok=True)
    shutil.rmtree(path)


def _stable(folder: Path) -> list[Checkpoint]:
    paths = [path for path in folder.glob("step-*") if (path / STABLE).exists() and _NAME.fullmatch(path.name)]
    return sorted((Checkpoint(path=path) for path in paths), key=lambda checkpoint: checkpoint.number)


def _is_full(folder: Path) -> bool:
    """Whether the disk is as good as full; libraries that write weights tell of it in errors of their own kinds."""
    return shutil.disk_usage(folder).free < _ROOM


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _spoilt(path: Path, found: str) -> str:
    return f"the checkpoint {path} is corrupt: {found}; remove that folder to go on from the one before it"
