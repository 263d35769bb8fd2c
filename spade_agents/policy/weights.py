"""Safetensors files by their headers alone: whether they are whole, and how many numbers they hold."""

from __future__ import annotations

from math import prod
from pathlib import Path

import msgspec

from spade_agents.errors import CheckpointError

__all__ = ["check_weights", "count_parameters"]


class _Tensor(msgspec.Struct):
    """One tensor's entry in the header."""

    shape: list[int]
    data_offsets: tuple[int, int]


def check_weights(folder: Path) -> None:
    """See that a model folder holds weights, and every file of them whole.

    Raises:
        CheckpointError: no `*.safetensors` there, or one that is cut short or no such file.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} holds no weights; wanted model.safetensors beside config.json")
    for path in files:
        tensors, start = _header(path)
        found, wanted = path.stat().st_size, start + max((tensor.data_offsets[1] for tensor in tensors), default=0)
        if found != wanted:
            raise CheckpointError(f"{path} is {found} bytes long and wanted {wanted}: it is damaged; copy it again")


def count_parameters(path: Path) -> int:
    """Numbers in a safetensors file.

    Raises:
        CheckpointError: it is no such file.
    """
    return sum(prod(tensor.shape) for tensor in _header(path)[0])


def _header(path: Path) -> tuple[list[_Tensor], int]:
    """The tensors' entries, and where the data begins."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            header = msgspec.json.decode(file.read(size), type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        return [msgspec.json.decode(entry, type=_Tensor) for entry in header.values()], 8 + size
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise CheckpointError(f"{path} is no safetensors file: {error}") from error
