"""Novelty of a source: its normalised syntax tree, a hash of it, and a MinHash sketch of its shingles."""

from __future__ import annotations

import ast
import functools
import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

__all__ = ["Admission", "MinHash", "Novelty", "NoveltyIndex", "fingerprint", "normalised_ast"]

SHINGLE = 6
BINS = 128
_EMPTY = -1
_IDENTIFIER_FIELDS = frozenset({"id", "attr", "arg", "name", "asname", "module", "rest", "names"})
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


Admission = Callable[[str], tuple[bool, str]]
"""An admission rule over sources: whether one is new enough, and what was found."""


class Novelty(Protocol):
    """An admission rule with a memory of its own."""

    def admits(self, source: str) -> tuple[bool, str]: ...


def normalised_ast(source: str) -> str:
    """The syntax tree as one line of text that names, words and comments do not change.

    Docstrings are dropped, identifiers become `$0`, `$1`, … in order of appearance, strings are blanked, numbers kept.

    Raises:
        SyntaxError: the source does not parse.
    """
    return " ".join(_renamed(_tokens(ast.parse(source))))


@functools.lru_cache(maxsize=256)
def fingerprint(source: str) -> str:
    """sha256 of `normalised_ast`, in hex: equal for sources that differ in names and words alone."""
    return _digest(_tokens(ast.parse(source)))


@dataclass(frozen=True, slots=True)
class MinHash:
    """A sketch of a set: the least hash in each of `BINS` bins (one permutation hashing, empty bins borrowed).

    Li, Owen, Zhang 2012, with the rotation of Shrivastava and Li 2014.
    """

    bins: tuple[int, ...]

    @classmethod
    def of(cls, source: str) -> Self:
        """The sketch of the source's shingles: windows of the normalised tree, identifiers renamed in each window.

        Renaming in each window keeps an identifier that one side adds from changing every shingle after it.
        """
        return cls._of_tokens(list(_tokens(ast.parse(source))))

    @classmethod
    def _of_tokens(cls, tokens: list[str]) -> Self:
        count = max(1, len(tokens) - SHINGLE + 1)
        return cls.of_items({" ".join(_renamed(tokens[start : start + SHINGLE])) for start in range(count)})

    @classmethod
    def of_items(cls, items: Iterable[str]) -> Self:
        least = [_EMPTY] * BINS
        for item in items:
            value = int.from_bytes(hashlib.blake2b(item.encode(), digest_size=8).digest(), "big")
            index, rest = value % BINS, value // BINS
            if least[index] == _EMPTY or rest < least[index]:
                least[index] = rest
        return cls(_borrowed(least))

    def similarity(self, other: MinHash) -> float:
        """Estimated Jaccard similarity in [0, 1]; standard error about sqrt(J(1 − J)/128)."""
        return sum(a == b for a, b in zip(self.bins, other.bins, strict=True)) / BINS


class NoveltyIndex:
    """The sources seen so far; one is admitted when no other has its tree, nor one `threshold` alike.

    Args:
        threshold: Jaccard similarity in (0, 1] from which a source counts as a copy.
    """

    def __init__(self, sources: Iterable[tuple[str, str]] = (), *, threshold: float = 0.9) -> None:
        self.threshold = threshold
        self._names: dict[str, str] = {}
        self._sketches: list[tuple[str, MinHash]] = []
        for name, source in sources:
            self.add(name, source)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str, source: str) -> None:
        """Remember a source; one whose normalised tree is known already adds nothing."""
        mark, sketch = _read(source)
        if mark not in self._names:
            self._names[mark] = name
            self._sketches.append((name, sketch))

    def admits(self, source: str) -> tuple[bool, str]:
        """Whether the source is new here, and the evidence."""
        known = self._names.get(_read(source)[0])
        if known is not None:
            return False, f"its normalised syntax tree is that of {known}"
        name, similarity = self.nearest(source)
        if name is None:
            return True, "nothing to compare with"
        told = f"nearest is {name}, similarity {similarity:.2f} (limit {self.threshold:.2f})"
        return similarity < self.threshold, told

    def nearest(self, source: str) -> tuple[str | None, float]:
        """Name and similarity of the most similar source; `(None, 0.0)` of an empty index."""
        sketch = _read(source)[1]
        scored = [(sketch.similarity(other), name) for name, other in self._sketches]
        similarity, name = max(scored, default=(0.0, None), key=operator.itemgetter(0))
        return name, similarity


@functools.lru_cache(maxsize=64)
def _read(source: str) -> tuple[str, MinHash]:
    """Fingerprint and sketch from one parse; kept for the `add` that follows an `admits`."""
    tokens = list(_tokens(ast.parse(source)))
    return _digest(tokens), MinHash._of_tokens(tokens)


def _digest(tokens: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(_renamed(tokens)).encode()).hexdigest()


def _tokens(root: ast.AST) -> Iterator[str]:
    """Nodes in preorder with their closing marks; identifiers come with a leading `$`.

    A stack of our own: designed code may nest deeper than Python's recursion limit.
    """
    stack: list[object] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, ast.Constant):
            yield _constant(item.value)
        elif isinstance(item, ast.AST):
            yield type(item).__name__
            parts = _parts(item)
            if parts:
                yield "("
                stack.append(")")
                stack.extend(reversed(parts))


def _parts(node: ast.AST) -> list[object]:
    parts: list[object] = []
    for name, value in ast.iter_fields(node):
        if name in ("ctx", "type_comment") or value is None:
            continue
        if isinstance(node, ast.JoinedStr):
            parts += [part for part in value if not isinstance(part, ast.Constant)]
        elif isinstance(value, list):
            parts.append("[")
            items = _undocumented(node, value) if name == "body" else value
            parts += [f"${item}" if isinstance(item, str) else item for item in items if item is not None]
            parts.append("]")
        elif isinstance(value, ast.AST):
            parts.append(value)
        else:
            parts.append(f"${value}" if name in _IDENTIFIER_FIELDS else str(value))
    return parts


def _undocumented(node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if isinstance(node, _DOCUMENTED) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body


def _constant(value: object) -> str:
    return "str" if isinstance(value, str | bytes) else repr(value)


def _renamed(tokens: Iterable[str]) -> Iterator[str]:
    numbers: dict[str, str] = {}
    for token in tokens:
        yield numbers.setdefault(token, f"${len(numbers)}") if token.startswith("$") else token


def _borrowed(least: list[int]) -> tuple[int, ...]:
    """Fill each empty bin from the next full one, with its distance mixed in so that two borrowings differ."""
    filled: list[int] = list(least)
    for index in range(BINS):
        distance = next((d for d in range(BINS) if least[(index + d) % BINS] != _EMPTY), None)
        if distance:
            filled[index] = least[(index + distance) % BINS] * BINS + distance
    return tuple(filled)
