"""The corpus: documents that ground designs, drawn without replacement from a resumable position."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from spade_agents.designer.corpus_rows import parquet_rows
from spade_agents.errors import UsageError
from spade_agents.files import write_whole

__all__ = ["Corpus", "Document", "builtin_corpus", "corpus_named", "load_corpus", "write_corpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document; `domain` names an everyday domain or a field, `source` the file or dataset that it came from."""

    id: str
    text: str
    domain: str = "general"
    source: str = ""

    def words(self, limit: int) -> str:
        """The first `limit` words, white space collapsed."""
        return " ".join(self.text.split()[:limit])


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents in a fixed order; `at(position)` draws without replacement, epoch after epoch.

    The order of each epoch is a permutation that depends on `seed` and the epoch alone, so a position is all that a
    checkpoint has to keep.
    """

    documents: tuple[Document, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.documents:
            raise UsageError("the corpus holds no document; give a JSONL file with one {id, text} object a line")

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def checksum(self) -> str:
        """sha256 over ids and texts."""
        return _checksum(self.documents)

    def at(self, position: int) -> Document:
        """The document of a position (0, 1, 2 … without end)."""
        epoch, index = divmod(position, len(self.documents))
        return self.documents[_order(self.seed, epoch, len(self.documents))[index]]


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, count: int) -> tuple[int, ...]:
    order = list(range(count))
    random.Random(f"corpus {seed} {epoch}").shuffle(order)
    return tuple(order)


@lru_cache(maxsize=4)
def _checksum(documents: tuple[Document, ...]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        digest.update(json.dumps([document.id, document.text]).encode())
    return digest.hexdigest()


def load_corpus(path: Path, *, seed: int = 0) -> Corpus:
    """Read a corpus: JSONL, or Parquet with the same columns (what ends in `.parquet`).

    Raises:
        UsageError: the file is missing, empty or not UTF-8, or a line is not an object with a non-empty `text`.
        ModuleNotFoundError: Parquet without pyarrow.
    """
    if not path.is_file():
        raise UsageError(
            f"the corpus {path} does not exist; give a JSONL file, or leave designer.corpus at 'builtin' or 'none'"
        )
    if path.suffix == ".parquet":
        rows = (json.dumps(row, default=str) for row in parquet_rows(path))
        return Corpus(documents=tuple(_documents(rows, str(path))), seed=seed)
    try:
        with path.open(encoding="utf-8-sig") as lines:
            return Corpus(documents=tuple(_documents(lines, str(path))), seed=seed)
    except UnicodeDecodeError as error:
        raise UsageError(f"the corpus {path} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"the corpus {path} cannot be read: {error.strerror}") from error


def builtin_corpus(*, seed: int = 0) -> Corpus:
    """The small corpus that travels with the package."""
    text = (resources.files("spade_agents.designer") / "data" / "corpus.jsonl").read_text(encoding="utf-8")
    return Corpus(documents=tuple(_documents(text.split("\n"), "the built-in corpus")), seed=seed)


def corpus_named(name: str, *, seed: int = 0) -> Corpus | None:
    """The corpus of a setting: `none`, `builtin`, or a file.

    Raises:
        UsageError: see `load_corpus`.
    """
    if name == "none":
        return None
    return builtin_corpus(seed=seed) if name == "builtin" else load_corpus(Path(name), seed=seed)


def write_corpus(path: Path, documents: Sequence[Document]) -> None:
    """Write documents as JSONL, whole or not at all."""
    lines = [
        json.dumps(
            {"id": d.id, "text": d.text, "domain": d.domain, **({"source": d.source} if d.source else {})},
            ensure_ascii=False,
        )
        for d in documents
    ]
    write_whole(path, ("\n".join(lines) + "\n").encode())


def _documents(lines: Iterable[str], where: str) -> Iterator[Document]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            text = fields["text"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"{where}, line {number}: wanted a JSON object with a text, found {line[:60]!r}"
            ) from error
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"{where}, line {number}: the text is empty or no string")
        document = Document(
            id=str(fields.get("id", number)),
            text=text,
            domain=str(fields.get("domain", "general")),
            source=str(fields.get("source", "")),
        )
        if not all(_is_text(part) for part in (document.id, text, document.domain, document.source)):
            raise UsageError(f"{where}, line {number}: it holds half a surrogate pair; write plain text")
        yield document


def _is_text(value: str) -> bool:
    """Whether a string can be written as UTF-8: JSON's escapes may name what cannot."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
