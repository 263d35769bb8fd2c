"""`spade corpus`: build a corpus of documents, and look into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spade_agents.cli.output import print_json, tell
from spade_agents.terminal import visible_line
from spade_environments.wording import counted

__all__ = ["app"]

app = typer.Typer(help="Build a corpus of documents, or look into one.", no_args_is_help=True, rich_markup_mode=None)


@app.command("build", epilog="Example: spade corpus build --out corpus.jsonl --words 300")
def build(
    out: Annotated[Path, typer.Option(help="The JSONL file to write; it must not exist.")] = Path("corpus.jsonl"),
    words: Annotated[int, typer.Option(min=25, help="Words of a document, at most.")] = 400,
) -> None:
    """Make a corpus from this Python's own library.

    From its documentation and sources.
    One JSON object a line, with id, text and domain: what `designer.corpus` of a configuration takes.
    """
    from spade_agents.designer.corpus import write_corpus
    from spade_agents.designer.stdlib_corpus import stdlib_documents
    from spade_agents.errors import UsageError

    if out.exists():
        raise UsageError(f"{out} exists and is left as it is; choose another --out")
    documents = list(stdlib_documents(words=words))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_corpus(out, documents)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}; choose another --out") from error
    tell(f"wrote {counted(len(documents), 'document')} to {out}; use them by: spade train nano designer.corpus={out}")


@app.command("show", epilog="Example: spade corpus show corpus.jsonl --json")
def show(
    corpus: Annotated[str, typer.Argument(help="A JSONL file, or `builtin`.")] = "builtin",
    count: Annotated[int, typer.Option(min=1, help="Documents to print.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Tell how large a corpus is, and print some of it.

    The documents are the first in the order in which a run with seed 0 draws them.
    """
    from spade_agents.designer.corpus import builtin_corpus, load_corpus

    found = builtin_corpus() if corpus == "builtin" else load_corpus(Path(corpus))
    drawn = [found.at(position) for position in range(min(count, len(found)))]
    if as_json:
        first = [{"id": document.id, "domain": document.domain, "text": document.text} for document in drawn]
        print_json({"documents": len(found), "checksum": found.checksum, "first": first})
        return
    tell(f"{counted(len(found), 'document')}, checksum {found.checksum[:12]}")
    for document in drawn:
        tell(f"\n{visible_line(document.id)} ({visible_line(document.domain)})\n{document.words(60)}")
