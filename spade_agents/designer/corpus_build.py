"""Building a corpus: rows to chunks, and what filters, near duplicates and benchmarks leave of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from spade_agents.designer.corpus import Corpus, Document, write_corpus
from spade_agents.designer.corpus_chunks import TokenCounter, WordTokens, chunks
from spade_agents.designer.corpus_filters import FilterSettings, unfit
from spade_agents.designer.corpus_overlap import Contamination, NearDuplicates
from spade_agents.designer.corpus_rows import rows_of
from spade_agents.designer.corpus_sources import CorpusSource
from spade_agents.errors import UsageError
from spade_agents.files import plain_file, write_whole

__all__ = ["BuildCounts", "BuildSettings", "build_corpus", "built_documents", "manifest_path", "read_manifest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """How texts become documents.

    Attributes:
        size: of a document, in tokens of the counter, at most.
        limit: documents, at most; `None` for all.
        filters: what is unfit.
        similarity: from which a document is a near duplicate; 1 leaves out exact copies of the words alone.
    """

    size: int = 400
    limit: int | None = None
    filters: FilterSettings = field(default_factory=FilterSettings)
    similarity: float = 0.7


@dataclass(slots=True)
class BuildCounts:
    """What became of the texts.

    Attributes:
        rows, chunks: read, and cut from them.
        unfit, contaminated: left out, by reason and by benchmark.
        near_duplicates: left out.
        kept: documents.
    """

    rows: int = 0
    chunks: int = 0
    unfit: Counter[str] = field(default_factory=Counter)
    near_duplicates: int = 0
    contaminated: Counter[str] = field(default_factory=Counter)
    kept: int = 0


def built_documents(
    sources: Iterable[CorpusSource],
    settings: BuildSettings,
    counts: BuildCounts,
    *,
    counter: TokenCounter | None = None,
    benchmarks: Contamination | None = None,
) -> Iterator[Document]:
    """The documents of sources, one after another; `counts` tells at any time what became of what was read.

    Raises:
        UsageError, InfrastructureError: see `rows_of`.
    """
    tokens, seen = counter or WordTokens(), NearDuplicates(settings.similarity)
    for source in sources:
        for row in rows_of(source):
            counts.rows += 1
            for part, text in enumerate(chunks(row.text, tokens, settings.size)):
                counts.chunks += 1
                if (reason := unfit(text, settings.filters)) is not None:
                    counts.unfit[reason.value] += 1
                elif benchmarks is not None and (name := benchmarks.found_in(text)) is not None:
                    counts.contaminated[name] += 1
                elif not seen.admits(text):
                    counts.near_duplicates += 1
                else:
                    counts.kept += 1
                    yield Document(
                        id=f"{source.name}/{row.name}/{part}", text=text, domain=row.domain, source=source.name
                    )
                    if settings.limit is not None and counts.kept >= settings.limit:
                        return


def build_corpus(
    out: Path,
    sources: Sequence[CorpusSource],
    settings: BuildSettings,
    *,
    counter: TokenCounter | None = None,
    benchmarks: Contamination | None = None,
) -> BuildCounts:
    """Write a corpus and, beside it, what it was made of.

    Raises:
        UsageError: there is no such place, nothing is left to write, or see `rows_of`; nothing was written.
    """
    _check_place(out)
    counts = BuildCounts()
    documents = list(built_documents(sources, settings, counts, counter=counter, benchmarks=benchmarks))
    if not documents:
        raise UsageError(f"no document is left of {counts.chunks} chunks: {_left_out(counts)}; give other sources")
    out.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "sources": [msgspec.to_builtins(source) for source in sources],
        "settings": msgspec.to_builtins(settings),
        "benchmark_texts": benchmarks.texts if benchmarks else 0,
        "counts": msgspec.to_builtins(counts),
        "checksum": Corpus(documents=tuple(documents)).checksum,
    }
    # The corpus last: where it stands, all of it stands, and what a full disk ends can be begun again.
    write_whole(manifest_path(out), msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
    try:
        write_corpus(out, documents)
    except BaseException:
        manifest_path(out).unlink(missing_ok=True)
        raise
    return counts


class _Told(TypedDict, total=False):
    """What must hold of a manifest to be told: whatever else stands in it is let pass."""

    sources: list[dict[str, Any]]
    counts: dict[str, Any]


def manifest_path(corpus: Path) -> Path:
    """What is told of a corpus, beside it."""
    return corpus.with_name(f"{corpus.stem}.manifest.json")


def read_manifest(corpus: Path) -> dict[str, Any] | None:
    """What is told of a corpus, or `None` where nothing is."""
    path = manifest_path(corpus)
    try:
        if not plain_file(path).exists():
            return None
        told = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        msgspec.convert(told, _Told)
        return told
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}; remove it") from error


def _check_place(out: Path) -> None:
    """See that a file can be made there before hours are spent on what goes into it."""
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"{out} cannot be written: {parent} is no folder that can be written to; choose another --out")


def _left_out(counts: BuildCounts) -> str:
    told = [f"{number} {reason}" for reason, number in counts.unfit.items()]
    told += [f"{counts.near_duplicates} near duplicates", f"{sum(counts.contaminated.values())} from benchmarks"]
    return ", ".join(told)
