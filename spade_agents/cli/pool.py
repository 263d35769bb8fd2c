"""`spade pool`: look into pools, merge them, split one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spade_agents.cli.output import print_json, tell
from spade_environments.wording import counted

__all__ = ["app"]

app = typer.Typer(help="Look into pools, merge them, or split one.", no_args_is_help=True, rich_markup_mode=None)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Threshold = Annotated[
    float, typer.Option(min=0.1, max=1.0, help="Similarity of programs from which two are near copies.")
]


@app.command("show", epilog="Example: spade pool show runs/demo --json")
def show(
    pool: Annotated[Path, typer.Argument(help="A pool's folder, or a run.")],
    as_json: JsonFlag = False,
) -> None:
    """Tell what a pool holds.

    Counts by gate, diversity (with and without documents, where both are there), and how hard it was for whoever
    played it.
    """
    from spade_agents.selfplay.pool_card import card_lines
    from spade_agents.selfplay.pool_figures import pool_figures

    figures = pool_figures(pool)
    if as_json:
        print_json(figures.row())
    else:
        tell("\n".join(card_lines(figures)))


@app.command("merge", epilog="Example: spade pool merge pool-a runs/demo --out both")
def merge(
    pools: Annotated[list[Path], typer.Argument(metavar="POOL...", help="Pools or runs, in order.")],
    out: Annotated[Path, typer.Option(help="The new pool; it must not exist.")],
    threshold: Threshold = 0.9,
    as_json: JsonFlag = False,
) -> None:
    """Merge pools into a new one.

    Of near copies the first stays; outcomes and certificates go along.
    """
    from dataclasses import asdict

    from spade_agents.selfplay.pool_sets import merge_pools

    merged = merge_pools(pools, out, threshold=threshold)
    if as_json:
        print_json({"pool": str(out), **asdict(merged)})
    else:
        left = f"{merged.same} were there already, {merged.alike} were near copies"
        tell(f"wrote {counted(merged.environments, 'environment')} to {out}; {left}")


@app.command("split", epilog="Example: spade pool split pool --part train=0.8 --part test=0.2 --out parts")
def split(
    pool: Annotated[Path, typer.Argument(help="A pool's folder, or a run.")],
    part: Annotated[list[str], typer.Option(metavar="NAME=SHARE", help="A part and its share; given for each.")],
    out: Annotated[Path, typer.Option(help="The folder of the new pools; it must not exist.")],
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    threshold: Threshold = 0.9,
    as_json: JsonFlag = False,
) -> None:
    """Split a pool into parts.

    Near copies stay together, so that no part holds a copy of another's; skills are spread evenly.
    """
    from spade_agents.selfplay.pool_sets import split_pool

    sizes = split_pool(pool, out, _shares(part), seed=seed, threshold=threshold)
    if as_json:
        print_json({"parts": {name: {"pool": str(out / name), "environments": size} for name, size in sizes.items()}})
    else:
        tell("\n".join(f"wrote {counted(size, 'environment')} to {out / name}" for name, size in sizes.items()))


def _shares(parts: list[str]) -> dict[str, float]:
    from spade_agents.errors import UsageError

    shares: dict[str, float] = {}
    for text in parts:
        name, _, share = text.partition("=")
        try:
            shares[name] = float(share)
        except ValueError as error:
            raise UsageError(f"--part is {text!r}; wanted NAME=SHARE, such as train=0.8") from error
    if len(shares) != len(parts):
        raise UsageError("two parts have the same name; give each its own")
    return shares
