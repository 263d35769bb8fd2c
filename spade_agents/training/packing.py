"""Rows of tokens laid end to end without padding, with every prefix that several of them share laid out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

__all__ = ["SHARED_AT_LEAST", "Layout", "PackedRows", "Ranges", "Segment", "common_prefix", "pack", "packs"]

SHARED_AT_LEAST = 8
"""Tokens that a shared prefix must save at each of its rows: below, one more segment costs more than they do."""

Ranges = tuple[tuple[int, int], ...]
Row = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive tokens: each sees those before it in the segment, and all of its context.

    Attributes:
        start, end: places in the packed row.
        context: ranges of places, in the order of their tokens: what stands before the segment in all its rows.
    """

    start: int
    end: int
    context: Ranges = ()

    @property
    def span(self) -> int:
        """Tokens that the last one of the segment sees, itself included."""
        return self.end - self.start + sum(end - start for start, end in self.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which token of a packed row sees which: block-diagonal attention, with branches that also see their prompt.

    Attributes:
        segments: in order, covering the row without gaps.
    """

    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        """Tokens in the packed row."""
        return self.segments[-1].end if self.segments else 0

    @property
    def span(self) -> int:
        """The most tokens that any token sees."""
        return max((segment.span for segment in self.segments), default=0)

    def mask(self, device: torch.device | str = "cpu") -> Tensor:
        """True where the token of the row (first axis) sees that of the column, shape (T, T)."""
        seen = torch.zeros(self.length, self.length, dtype=torch.bool, device=device)
        for segment in self.segments:
            rows = slice(segment.start, segment.end)
            seen[rows, rows] = True
            for start, end in segment.context:
                seen[rows, start:end] = True
        # Contexts come earlier, so that this cuts inside segments only.
        return seen.tril_()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRows:
    """One packed row.

    Attributes:
        token_ids: shape (T,).
        position_ids: each token's place in the rows it belongs to, shape (T,).
        layout: who sees whom.
        rows: which of the given rows, in the order they stand in.
        pieces: for each of `rows`, the ranges of the packed row that make it up, first token to last.
    """

    token_ids: tuple[int, ...]
    position_ids: tuple[int, ...]
    layout: Layout
    rows: tuple[int, ...]
    pieces: tuple[Ranges, ...]

    def places(self, number: int) -> list[int]:
        """Where the tokens of the `number`-th of `rows` stand."""
        return [place for start, end in self.pieces[number] for place in range(start, end)]


def common_prefix(first: Row, second: Row) -> int:
    """Tokens that both begin with."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def pack(rows: Sequence[Row], *, sharing: bool = True) -> PackedRows:
    """All rows in one packed row, in lexicographic order.

    Args:
        rows: none of them empty.
        sharing: whether prefixes that rows share are laid out once, as a tree; otherwise each row is a segment.
    """
    order, shared = _sorted(rows, sharing=sharing)
    return _lay([rows[index] for index in order], order, shared[: len(order) - 1])


def packs(rows: Sequence[Row], *, token_budget: int, sharing: bool = True) -> list[PackedRows]:
    """The rows in as many packed rows as keep each within the budget; a longer row than the budget stands alone.

    Rows that share prefixes stand together, as far as the budget allows.
    """
    order, shared = _sorted(rows, sharing=sharing)
    made: list[PackedRows] = []
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and _tokens(rows, order[start : end + 1], shared[start:end]) <= token_budget:
            end += 1
        chosen = order[start:end]
        made.append(_lay([rows[index] for index in chosen], chosen, shared[start : end - 1]))
        start = end
    return made


def _sorted(rows: Sequence[Row], *, sharing: bool) -> tuple[list[int], list[int]]:
    """Indices in lexicographic order, and how many tokens each row shares with the next."""
    order = sorted(range(len(rows)), key=lambda index: (rows[index], index))
    if not sharing:
        return order, [0] * len(order)
    return order, [common_prefix(rows[a], rows[b]) for a, b in pairwise(order)] + [0]


def _tokens(rows: Sequence[Row], order: Sequence[int], shared: Sequence[int]) -> int:
    return _Tree([len(rows[index]) for index in order], shared).grow().length


def _lay(rows: Sequence[Row], order: Sequence[int], shared: Sequence[int]) -> PackedRows:
    tree = _Tree([len(row) for row in rows], shared).grow()
    token_ids = tuple(token for row, start, end in tree.nodes for token in rows[row][start:end])
    position_ids = tuple(place for _, start, end in tree.nodes for place in range(start, end))
    return PackedRows(
        token_ids=token_ids,
        position_ids=position_ids,
        layout=Layout(segments=tuple(tree.segments)),
        rows=tuple(order),
        pieces=tuple(tree.pieces),
    )


@dataclass(slots=True)
class _Tree:
    """The prefix tree of sorted rows, laid out parents first.

    Attributes:
        lengths: of the rows.
        shared: tokens that each row but the last shares with the next.
        length: tokens laid out so far.
        nodes: (a row that has these tokens, where they start and end in it), one for each segment.
        pieces: of each row, see `PackedRows`.
    """

    lengths: list[int]
    shared: Sequence[int]
    length: int = 0
    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    pieces: list[Ranges] = field(default_factory=list)

    def grow(self) -> _Tree:
        self._branch(0, len(self.lengths), 0, ())
        return self

    def _branch(self, first: int, last: int, depth: int, context: Ranges) -> None:
        """Lay out rows first … last − 1, whose first `depth` tokens stand in `context`."""
        if last - first <= 1:
            self.pieces += [self._lay(first, depth, self.lengths[first], context)] * (last - first)
            return
        common = min(self.shared[first : last - 1])
        # Rows that share too little carry those tokens themselves.
        if common - depth >= SHARED_AT_LEAST:
            context, depth = self._lay(first, depth, common, context), common
        start = first
        for row in range(first, last):
            if row == last - 1 or self.shared[row] <= common:
                self._branch(start, row + 1, depth, context)
                start = row + 1

    def _lay(self, row: int, start: int, end: int, context: Ranges) -> Ranges:
        """Add a segment; the ranges of everything up to its end."""
        if start == end:
            return context
        place = (self.length, self.length + end - start)
        self.nodes.append((row, start, end))
        self.segments.append(Segment(start=place[0], end=place[1], context=context))
        self.length = place[1]
        if context and context[-1][1] == place[0]:
            return (*context[:-1], (context[-1][0], place[1]))
        return (*context, place)
