"""`spade model`: fetch a small real model, and tell about any."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(help="Fetch a small real model.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Fetch a small real model."""


@app.command("fetch", epilog="Example: spade model fetch smollm2")
def fetch(
    name: Annotated[str, typer.Argument(help="Which: smollm2, 135 million parameters, 93 MB to download.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder to make; by default the cache, where --model NAME looks.")
    ] = None,
) -> None:
    """Download a model, and write it as a folder.

    By pip; its sums are checked, and the folder is one for Hugging Face's libraries.
    Shows the licence it comes under. This is one of the few commands that use the network.
    """
    from spade_agents.cli.output import tell
    from spade_agents.cli.runs import watched
    from spade_agents.policy.fetch import MODELS, fetch_model

    with watched() as progress:
        folder = fetch_model(name, out=out, say=progress.say)
    model = MODELS[name]
    tell(f"wrote {folder}")
    tell(f"licence: {model.license} (text in {folder / 'LICENSE'}); {model.origin}")
    tell(f"use it by: --model {name if out is None else folder}")
