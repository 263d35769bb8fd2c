"""Keys and values: an arena whose first rows are the live ones, and a store of prefixes that may be continued."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy
import torch
from torch import Tensor

from spade_agents.policy.llama import LlamaShape

__all__ = ["KvArena", "PrefixStore"]

_STEP = 256


class KvArena:
    """Preallocated keys and values of live rows, (layers, 2, rows, kv heads, capacity, head size).

    Live rows are the first ones, so that a decode step reads a view and copies nothing. Untouched pages of the
    allocation cost no memory.
    """

    def __init__(self, shape: LlamaShape, *, dtype: torch.dtype, device: torch.device) -> None:
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self.memory = self._allocate(1, 1)

    @property
    def rows(self) -> int:
        return int(self.memory.shape[2])

    @property
    def capacity(self) -> int:
        """Tokens a row can hold."""
        return int(self.memory.shape[4])

    def bytes_for(self, rows: int, capacity: int) -> int:
        """Bytes of an arena of that size, once every page is touched."""
        shape = self._shape
        return 2 * shape.layers * rows * shape.kv_heads * capacity * shape.head_size * self._dtype.itemsize

    def reserve(self, rows: int, capacity: int, *, live: int) -> None:
        """Grow to at least that size, keeping the first `live` rows."""
        capacity = -(-capacity // _STEP) * _STEP
        if rows <= self.rows and capacity <= self.capacity:
            return
        old = self.memory
        self.memory = self._allocate(max(rows, self.rows), max(capacity, self.capacity))
        if live:
            self.memory[:, :, :live, :, : old.shape[4]] = old[:, :, :live]

    def layer(self, index: int, live: int, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first `live` rows up to `length`: two views (rows, kv heads, length, head size)."""
        view = self.memory[index, :, :live, :, :length]
        return view[0], view[1]

    def write(self, row: int, prefix: Tensor) -> None:
        """Fill a row's beginning from (layers, 2, kv heads, length, head size)."""
        self.memory[:, :, row, :, : prefix.shape[3]] = prefix

    def read(self, row: int, length: int) -> Tensor:
        """A copy of a row's beginning."""
        return self.memory[:, :, row, :, :length].clone()

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row to another."""
        self.memory[:, :, target, :, :length] = self.memory[:, :, source, :, :length]

    def _allocate(self, rows: int, capacity: int) -> Tensor:
        shape = self._shape
        size = (shape.layers, 2, rows, shape.kv_heads, capacity, shape.head_size)
        # Zeros, since what a mask hides is still multiplied by 0; from calloc, since torch.zeros touches every page.
        memory = numpy.zeros(self.bytes_for(rows, capacity), dtype=numpy.uint8)
        return torch.from_numpy(memory).view(self._dtype).view(size).to(self._device)


class PrefixStore:
    """Keys and values of finished rows by their exact tokens, oldest dropped first when `limit` bytes are passed."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._entries: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, tokens: Sequence[int], memory: Tensor) -> None:
        """Keep keys and values of `tokens`, (layers, 2, kv heads, len(tokens), head size)."""
        size = memory.nbytes
        key = tuple(tokens)
        self._remove(key)
        if size > self.limit:
            return
        while self.used + size > self.limit:
            self._remove(next(iter(self._entries)))
        self._entries[key] = memory
        self.used += size

    def take(self, prompt: Sequence[int]) -> tuple[int, Tensor | None]:
        """The longest stored prefix of `prompt` that leaves at least one token, removed from the store.

        Returns:
            Its length and its keys and values, or 0 and `None`.
        """
        wanted = tuple(prompt)
        found: tuple[int, ...] = ()
        for key in self._entries:
            # The last token is compared first: plays of one environment share all but their ends.
            fits = len(found) < len(key) < len(wanted) and wanted[len(key) - 1] == key[-1]
            if fits and wanted[: len(key)] == key:
                found = key
        if not found:
            return 0, None
        memory = self._entries[found]
        self._remove(found)
        return len(found), memory

    def clear(self) -> None:
        self._entries.clear()
        self.used = 0

    def _remove(self, key: tuple[int, ...]) -> None:
        memory = self._entries.pop(key, None)
        self.used -= 0 if memory is None else memory.nbytes
