"""Cutting texts into documents of so many tokens, at the end of a sentence or line where one is near."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from spade_agents.errors import UsageError

__all__ = ["PatternTokens", "TokenCounter", "TokenizerTokens", "WordTokens", "chunks", "open_counter"]

Span = tuple[int, int]

_REACH = 0.25
"""How far back from its end, as a share of a chunk, a better place for the cut is looked for."""
_END = re.compile(r"[.!?][\"')\]]?(?=\s)|\n")


class TokenCounter(Protocol):
    """Tells where the tokens of a text lie."""

    def spans(self, text: str) -> list[Span]: ...


class WordTokens:
    """Words, parted by white space."""

    def spans(self, text: str) -> list[Span]:
        return [found.span() for found in re.finditer(r"\S+", text)]


class PatternTokens:
    """Word pieces of at most six letters, numbers and marks: near what most tokenizers make, without one."""

    def spans(self, text: str) -> list[Span]:
        return [found.span() for found in re.finditer(r"[^\W\d_]{1,6}|\d{1,3}|[^\w\s]|_", text)]


class TokenizerTokens:
    """The tokens of a model's own tokenizer."""

    def __init__(self, folder: Path) -> None:
        """Read `tokenizer.json`.

        Raises:
            UsageError: the folder holds none, or one that cannot be read.
            ModuleNotFoundError: tokenizers is not installed.
        """
        import tokenizers

        path = folder / "tokenizer.json"
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise UsageError(f"{path} is no tokenizer: {error}; give a model's folder") from error

    def spans(self, text: str) -> list[Span]:
        return [(start, end) for start, end in self._tokenizer.encode(text, add_special_tokens=False).offsets]


def open_counter(tokenizer: Path | None) -> TokenCounter:
    """The tokens of a model's folder, or an estimate of them without one."""
    return PatternTokens() if tokenizer is None else TokenizerTokens(tokenizer)


def chunks(text: str, counter: TokenCounter, size: int) -> Iterator[str]:
    """Parts of at most `size` tokens, in order; together they hold all of the text but white space at the cuts."""
    spans = [span for span in counter.spans(text) if span[1] > span[0]]
    first = 0
    while first < len(spans):
        last = min(first + size, len(spans))
        start, end = spans[first][0], spans[last - 1][1]
        if last < len(spans):
            end = _better_end(text, spans[max(first, last - 1 - int(size * _REACH))][1], end)
            last = next(number for number in range(last, first, -1) if spans[number - 1][1] <= end)
        yield text[start:end].strip()
        first = last


def _better_end(text: str, earliest: int, end: int) -> int:
    """The last end of a sentence or line in `text[earliest:end]`, or `end` where there is none."""
    places = [found.end() for found in _END.finditer(text, earliest, min(len(text), end + 1)) if found.end() <= end]
    return places[-1] if places else end
