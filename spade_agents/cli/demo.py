"""`spade demo`: the whole loop on this machine, from the shipped model to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="The same loop in about a minute, too short to learn.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The run directory to make; a free runs/demo by default.")] = None,
    seed: Annotated[int, typer.Option(help="Root of every random choice.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Run the whole self-play loop on this machine.

    The shipped model designs environments, plays them with and without hints, is trained on both roles, and is
    evaluated on held-out environments before and after. At the end it names a report to open in a browser.

    Exit code: 0 finished, 2 wrong usage, 3 infrastructure failed, 130 stopped by Ctrl-C.
    """
    from spade_agents.cli.configurations import configuration_path
    from spade_agents.cli.runs import conclude, free_folder, watched
    from spade_agents.selfplay import train

    folder = free_folder("quick" if quick else "demo") if out is None else out
    config = configuration_path("nano_quick" if quick else "nano")
    named = [f"run.seed={seed}", f"run.name={'quick demo' if quick else 'demo'}"]
    with watched() as progress:
        result = train(config, out=folder, overrides=named, progress=progress)
    conclude(result, as_json=as_json)
