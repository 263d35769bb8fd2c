"""Where documents are read from: JSONL, Parquet, plain text and Hugging Face datasets, one row at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spade_agents.designer.corpus_sources import CorpusSource
from spade_agents.designer.packed import DAMAGED, PACKED, open_text
from spade_agents.designer.stdlib_corpus import stdlib_texts
from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.files import plain_file

__all__ = ["SourceRow", "file_rows", "parquet_rows", "rows_of"]

Row = Mapping[str, Any]

_TEXTS = (".txt", ".md", ".rst")
_LINES = (".jsonl", ".json")
_HALVES = re.compile("[\ud800-\udfff]")
_OF_THE_NETWORK = ("httpx", "httpcore", "aiohttp", "requests", "urllib3")
"""Libraries whose errors the datasets library lets pass."""


class SourceRow(NamedTuple):
    """One text as it was found, its name within the source, and its domain."""

    name: str
    text: str
    domain: str


def rows_of(source: CorpusSource) -> Iterator[SourceRow]:
    """The texts of a source, streamed in its own order.

    Raises:
        UsageError: there is no such file or dataset, or its rows hold none of the fields asked for.
        InfrastructureError: the dataset's server failed.
        ModuleNotFoundError: the library that reads this kind of source is not installed.
    """
    path = Path(source.name)
    if source.name == "stdlib":
        yield from (SourceRow(name, text, source.domain or "python") for name, text in stdlib_texts())
        return
    rows = file_rows(path) if path.exists() else _dataset_rows(source)
    for number, row in enumerate(rows):
        if source.rows is not None and number >= source.rows:
            return
        text = _text(row, source)
        if text.strip():
            yield SourceRow(*map(_writable, (str(row.get("id", number)), text, _domain(row, source))))


def _writable(text: str) -> str:
    """With halves of surrogate pairs, which no file can hold, as the mark that filters count as broken."""
    return text if text.isascii() else _HALVES.sub("\ufffd", text)


def file_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, or of every file below a folder, by name.

    Raises:
        UsageError: of no kind that is read here, or damaged.
    """
    if path.is_dir():
        files = [found for found in sorted(path.rglob("*")) if found.is_file() and _kind(found)]
        if not files:
            raise UsageError(f"{path} holds no file that can be read; wanted .jsonl, .parquet or .txt")
        for file in files:
            yield from file_rows(file)
        return
    kind = _kind(path)
    if kind == ".parquet":
        yield from parquet_rows(path)
    elif kind in _TEXTS:
        yield {"id": path.name, "text": _whole_text(path)}
    elif kind in _LINES:
        yield from _json_rows(path)
    else:
        raise UsageError(f"{path} cannot be read as a corpus; wanted .jsonl, .json, .parquet or .txt (.gz, .zst)")


def parquet_rows(path: Path) -> Iterator[Row]:
    """The rows of a Parquet file, a batch at a time.

    Raises:
        UsageError: it is damaged.
        ModuleNotFoundError: pyarrow is not installed.
    """
    import pyarrow
    import pyarrow.parquet

    plain_file(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read as Parquet: {error}") from error


def _whole_text(path: Path) -> str:
    try:
        with open_text(path) as opened:
            return opened.read()
    except DAMAGED as error:
        raise UsageError(f"{path} is no text that can be read: {error}; save it as UTF-8") from error


def _json_rows(path: Path) -> Iterator[Row]:
    """The objects of a JSONL file, or of one JSON array."""
    number = 0
    try:
        with open_text(path) as file:
            lines: Iterable[str] = file
            if ".json" in path.suffixes:
                text = file.read()
                if (whole := _whole(text)) is not None:
                    yield from whole
                    return
                lines = text.split("\n")
            for line in lines:
                number += 1
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise ValueError("no object")
                    yield row
    except (*DAMAGED, RecursionError) as error:
        raise UsageError(f"{path}, line {number}: wanted one JSON object a line ({error})") from error


def _whole(text: str) -> list[Row] | None:
    """The rows of a file that is one JSON value; `None` for one with a value on each line."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    rows = found if isinstance(found, list) else [found]
    return [row if isinstance(row, dict) else {"text": row} for row in rows]


def _kind(path: Path) -> str:
    """The suffix that tells what a file holds; empty for one that is not read here."""
    suffix = Path(path.stem).suffix if path.suffix in PACKED else path.suffix
    return suffix if suffix in (*_TEXTS, *_LINES, ".parquet") else ""


def _dataset_rows(source: CorpusSource) -> Iterator[Row]:
    """The rows of a dataset by its name, streamed: nothing is downloaded but what is read."""
    if source.name.count("/") > 1 or source.name.startswith((".", "/", "~")) or Path(source.name).suffix in _LINES:
        raise UsageError(f"there is no file {source.name}; give a file, a dataset's name (OWNER/NAME) or a preset")
    import datasets

    try:
        found = datasets.load_dataset(source.name, source.config, split=source.split, streaming=True)
        yield from found
    except (datasets.exceptions.DatasetNotFoundError, ValueError, FileNotFoundError) as error:
        raise UsageError(f"the dataset {source.name!r} cannot be opened: {error}") from error
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.startswith(_OF_THE_NETWORK):
            raise InfrastructureError(f"the dataset {source.name} cannot be read: {error}; try again") from error
        raise


def _text(row: Row, source: CorpusSource) -> str:
    parts = [str(row[name]) for name in source.fields if row.get(name)]
    if not parts and not any(name in row for name in source.fields):
        raise UsageError(
            f"the rows of {source.name} hold none of {', '.join(source.fields)}; found {', '.join(sorted(row)[:12])}: "
            "name one by --field"
        )
    return "\n\n".join(parts)


def _domain(row: Row, source: CorpusSource) -> str:
    told = row.get(source.domain_field) if source.domain_field else None
    return " ".join(str(told).split())[:80] if told else source.domain or str(row.get("domain", "general"))
