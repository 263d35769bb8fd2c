"""`spade nano`: build the small model that plays both roles, and tell about one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from spade_agents.cli.output import print_json, tell
from spade_agents.terminal import visible_line

__all__ = ["app"]

app = typer.Typer(
    help="Build the small model that plays both roles, or tell about one.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("build", epilog="Example: spade nano build --out my_nano --seed 1 --minutes 20")
def build(
    out: Annotated[Path, typer.Option(help="The folder to make.")] = Path("nano"),
    seed: Annotated[int, typer.Option(help="Of data, tokenizer and weights.")] = 0,
    minutes: Annotated[float, typer.Option(min=0.1, help="Of training.")] = 42.0,
    steps: Annotated[int | None, typer.Option(min=1, help="End training after so many steps.")] = None,
    start: Annotated[str | None, typer.Option(metavar="MODEL", help="Go on from this model instead of anew.")] = None,
    measure: Annotated[bool, typer.Option(help="Measure designs and plays at the end, into spade.json.")] = True,
) -> None:
    """Build nano from a seed.

    Makes a tokenizer and a model of a few million parameters, and warm-starts it by supervised learning on generated
    environment programs, hints and plays. The folder appears whole, when everything is done; use it as model.start of
    `spade train`.
    """
    import shutil

    from spade_agents.cli.runs import watched
    from spade_agents.errors import UsageError
    from spade_agents.nano.build import build as build_nano
    from spade_agents.policy import model_folder

    if out.exists():
        raise UsageError(f"{out} exists and is left as it is; choose another --out")
    earlier = None if start is None else model_folder(start)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with watched() as progress:
            build_nano(
                draft, seed=seed, minutes=minutes, steps=steps, start=earlier, measured=measure, say=progress.say
            )
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    tell(f"wrote {out}; use it by: spade train nano model.start={out}")


@app.command("info", epilog="Example: spade nano info --json")
def info(
    model: Annotated[
        str, typer.Argument(help="A model folder, a run or a step-N; the shipped one by default.")
    ] = "nano",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Tell about a model.

    Where it lies, its size and shape, and what it was trained on. It is read, not loaded.
    """
    from spade_agents.policy import model_folder

    facts = _facts(model_folder(model))
    if as_json:
        print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        tell(f"{visible_line(name):<{width}} {_told(value)}")


def _facts(folder: Path) -> dict[str, Any]:
    from spade_agents.policy.weights import count_parameters

    config = _read(folder / "config.json")
    about = _read(folder / "spade.json") if (folder / "spade.json").exists() else {}
    return {
        "folder": str(folder),
        "parameters": sum(count_parameters(path) for path in folder.glob("*.safetensors")),
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "vocabulary": config.get("vocab_size"),
        "hidden": config.get("hidden_size"),
        "layers": config.get("num_hidden_layers"),
        "context": config.get("max_position_embeddings"),
        **about,
    }


def _read(path: Path) -> dict[str, Any]:
    from spade_agents.errors import CheckpointError

    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; wanted a Hugging Face folder") from error
    return found


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
