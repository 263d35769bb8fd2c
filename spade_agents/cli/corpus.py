"""`spade corpus`: build a corpus of documents, and look into one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spade_agents.cli.output import print_json, tell
from spade_agents.terminal import visible_line
from spade_environments.wording import counted

if TYPE_CHECKING:
    from spade_agents.designer.corpus_build import BuildCounts

__all__ = ["app"]

app = typer.Typer(help="Build a corpus of documents, or look into one.", no_args_is_help=True, rich_markup_mode=None)

_SOURCES = "`stdlib`, a file or folder (.jsonl, .parquet, .txt), a dataset as OWNER/NAME, or a preset."


@app.command("build", epilog="Example: spade corpus build megascience --limit 5000 --against data --out corpus.jsonl")
def build(
    sources: Annotated[list[str] | None, typer.Argument(metavar="[SOURCE]...", help=_SOURCES)] = None,
    out: Annotated[Path, typer.Option(help="The JSONL file to write; it must not exist.")] = Path("corpus.jsonl"),
    words: Annotated[int | None, typer.Option(min=25, help="Words of a document, at most; 400 by default.")] = None,
    tokens: Annotated[int | None, typer.Option(min=25, help="Tokens of a document, at most, instead.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A model's folder whose tokens are counted; estimated without one.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Documents, at most.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows read of each source, at most.")] = None,
    field: Annotated[list[str] | None, typer.Option(help="A column that makes the text; may be given again.")] = None,
    config: Annotated[str | None, typer.Option(help="Of a dataset.")] = None,
    split: Annotated[str | None, typer.Option(help="Of a dataset; train by default.")] = None,
    domain: Annotated[str, typer.Option(help="Domain of every document.")] = "",
    against: Annotated[
        list[Path] | None, typer.Option(help="Benchmark files or a folder of them; what shares words with them is out.")
    ] = None,
    ngram: Annotated[int, typer.Option(min=5, help="Words in a row that are too many to share.")] = 13,
    similarity: Annotated[
        float, typer.Option(min=0.1, max=1.0, help="From which two documents are near duplicates.")
    ] = 0.7,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Make a corpus of documents.

    Without a SOURCE: from this Python's own library. Datasets are streamed, and read by the library `datasets`; presets
    name well-known ones: dclm, megascience, nemotron-code. Texts are cut into documents; unfit ones, near duplicates
    and what shares words with a benchmark are left out, and counted in a manifest beside the file. One JSON object a
    line, with id, text, domain and source: what `designer.corpus` of a configuration takes.
    """
    import msgspec

    from spade_agents.designer.corpus_build import BuildSettings, build_corpus
    from spade_agents.designer.corpus_chunks import WordTokens, open_counter
    from spade_agents.designer.corpus_overlap import Contamination, benchmark_texts
    from spade_agents.designer.corpus_sources import source_named
    from spade_agents.errors import UsageError

    if out.exists():
        raise UsageError(f"{out} exists and is left as it is; choose another --out")
    if words is not None and tokens is not None:
        raise UsageError("give either --words or --tokens: both say how long a document is")
    named = [
        source_named(name, config=config, split=split, fields=tuple(field or ()), domain=domain, rows=rows)
        for name in sources or ["stdlib"]
    ]
    counter = open_counter(tokenizer) if tokens is not None else WordTokens()
    benchmarks = Contamination(benchmark_texts(against), size=ngram) if against else None
    settings = BuildSettings(size=tokens or words or 400, limit=limit, similarity=similarity)
    counts = build_corpus(out, named, settings, counter=counter, benchmarks=benchmarks)
    if as_json:
        print_json({"corpus": str(out), **msgspec.to_builtins(counts)})
    else:
        tell(_told(counts, out))


@app.command("show", epilog="Example: spade corpus show corpus.jsonl --json")
def show(
    corpus: Annotated[str, typer.Argument(help="A JSONL or Parquet file, or `builtin`.")] = "builtin",
    count: Annotated[int, typer.Option(min=1, help="Documents to print.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Tell how large a corpus is, where it is from, and print some of it.

    The documents are the first in the order in which a run with seed 0 draws them.
    """
    from collections import Counter

    from spade_agents.designer.corpus import builtin_corpus, load_corpus
    from spade_agents.designer.corpus_build import read_manifest

    found = builtin_corpus() if corpus == "builtin" else load_corpus(Path(corpus))
    made = None if corpus == "builtin" else read_manifest(Path(corpus))
    drawn = [found.at(position) for position in range(min(count, len(found)))]
    lengths = sorted(len(document.text.split()) for document in found.documents)
    domains = dict(Counter(document.domain for document in found.documents).most_common(8))
    if as_json:
        first = [{"id": document.id, "domain": document.domain, "text": document.text} for document in drawn]
        about: dict[str, Any] = {"documents": len(found), "checksum": found.checksum, "domains": domains}
        print_json({**about, "words": sum(lengths), "manifest": made, "first": first})
        return
    tell(f"{len(found)} documents, {sum(lengths)} words, checksum {found.checksum[:12]}")
    tell(f"words of a document: {lengths[0]} to {lengths[-1]}, median {lengths[len(lengths) // 2]}")
    tell("domains: " + ", ".join(f"{visible_line(name)} {number}" for name, number in domains.items()))
    if made is not None:
        counts = made.get("counts", {})
        names = ", ".join(str(source.get("name")) for source in made.get("sources", []))
        tell(f"built from {visible_line(names)}: {counts.get('kept')} of {counts.get('chunks')} chunks kept")
    for document in drawn:
        tell(f"\n{visible_line(document.id)} ({visible_line(document.domain)})\n{document.words(60)}")


def _told(counts: BuildCounts, out: Path) -> str:
    lines = [
        f"wrote {counted(counts.kept, 'document')} to {out}; use them by: spade train nano designer.corpus={out}",
        f"of {counted(counts.chunks, 'chunk')} from {counted(counts.rows, 'text')}:",
        *(f"  {number} left out: {reason}" for reason, number in counts.unfit.most_common()),
    ]
    if counts.near_duplicates:
        lines.append(f"  {counts.near_duplicates} left out: near duplicates")
    lines += [f"  {number} left out: in {visible_line(name)}" for name, number in counts.contaminated.most_common()]
    return "\n".join(lines)
