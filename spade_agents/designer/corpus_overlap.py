"""Overlap of texts: near duplicates by MinHash, and n-grams shared with the benchmarks."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from spade_agents.designer.corpus_rows import file_rows
from spade_agents.errors import UsageError
from spade_agents.files import plain_file
from spade_environments.certificate import MinHash

__all__ = ["Contamination", "NearDuplicates", "benchmark_texts"]

SHINGLE: Final = 5
"""Words in a shingle of a near duplicate's sketch."""
BANDS: Final = 32
"""Parts of a sketch; two texts are compared where one part is equal, which finds a pair of Jaccard 0.7 in 0.9998."""
NGRAM: Final = 13
"""Words that a text must share with a benchmark in a row (Brown et al. 2020)."""
SHORTEST: Final = 8
"""Benchmark texts of fewer words are too common to tell anything; those between are looked for whole."""

_WORD = re.compile(r"\w+")


class NearDuplicates:
    """The texts kept so far; `admits` tells a new one from a near copy of one of them.

    Args:
        threshold: estimated Jaccard similarity of word shingles, in (0, 1], from which a text is a copy.
    """

    def __init__(self, threshold: float = 0.7) -> None:
        self._threshold = threshold
        self._sketches: list[MinHash] = []
        self._bands: dict[tuple[int, tuple[int, ...]], list[int]] = {}

    def admits(self, text: str) -> bool:
        """Whether no text kept so far is like it; then it is kept."""
        words = _WORD.findall(text.lower())
        count = max(1, len(words) - SHINGLE + 1)
        sketch = MinHash.of_items({" ".join(words[start : start + SHINGLE]) for start in range(count)})
        keys = list(_banded(sketch))
        near = {number for key in keys for number in self._bands.get(key, ())}
        if any(sketch.similarity(self._sketches[number]) >= self._threshold for number in near):
            return False
        for key in keys:
            self._bands.setdefault(key, []).append(len(self._sketches))
        self._sketches.append(sketch)
        return True


class Contamination:
    """The n-grams of benchmarks; `found_in` names the one that a text shares some with.

    Args:
        texts: of the benchmarks, each with the name of its file.
        size: words of an n-gram.
    """

    def __init__(self, texts: Iterable[tuple[str, str]], *, size: int = NGRAM) -> None:
        self._grams: dict[int, dict[str, str]] = {}
        self.texts = 0
        for name, text in texts:
            words = _WORD.findall(text.lower())
            if len(words) < min(SHORTEST, size):
                continue
            self.texts += 1
            length = min(size, len(words))
            grams = self._grams.setdefault(length, {})
            grams.update(dict.fromkeys(_grams(words, length), name))

    def found_in(self, text: str) -> str | None:
        """The benchmark that holds a run of this text's words, or `None`."""
        words = _WORD.findall(text.lower())
        for length, known in self._grams.items():
            for gram in _grams(words, length):
                if gram in known:
                    return known[gram]
        return None


def benchmark_texts(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Every text in the files of benchmarks, whatever their form: all strings of JSON, tables and plain text.

    Raises:
        UsageError: a path that is not there, or a file that cannot be read.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no {path}; give the files or folders of the benchmarks by --against")
        files = sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]
        for file in files:
            yield from ((file.name, text) for text in _texts(file))


def _texts(file: Path) -> Iterator[str]:
    plain_file(file)
    if file.suffix == ".csv":
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
        try:
            with file.open(encoding="utf-8", newline="") as lines:
                yield from (cell for row in csv.reader(lines) for cell in row)
        except (OSError, ValueError, csv.Error) as error:
            raise UsageError(f"{file} cannot be read: {error}") from error
        return
    if {".json", ".jsonl", ".parquet", ".txt"} & set(file.suffixes):
        for row in file_rows(file):
            yield from _strings(row)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _banded(sketch: MinHash) -> Iterator[tuple[int, tuple[int, ...]]]:
    rows = len(sketch.bins) // BANDS
    return ((band, sketch.bins[band * rows : (band + 1) * rows]) for band in range(BANDS))


def _grams(words: list[str], length: int) -> Iterator[str]:
    return (" ".join(words[start : start + length]) for start in range(len(words) - length + 1))
