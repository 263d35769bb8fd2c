"""`spade design`: a certified pool by any model, without training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spade_agents.cli.output import print_json, tell

if TYPE_CHECKING:
    from spade_agents.policy import Policy
    from spade_agents.selfplay.design_settings import PoolDesignSettings
    from spade_agents.selfplay.pool_designer import PoolDesigned
    from spade_agents.selfplay.pool_figures import PoolFigures
    from spade_agents.telemetry import ProgressReporter

__all__ = ["design"]


def design(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, such as call.attempts=3.")
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="PATH, nano, smollm2, URL#MODEL or scripted:FILE.jsonl")
    ] = "nano",
    n: Annotated[int, typer.Option("--n", min=1, max=1_000_000, help="Environments asked for.")] = 200,
    out: Annotated[Path, typer.Option(help="The pool's folder; one that was begun is gone on with.")] = Path("pool"),
    skills: Annotated[str | None, typer.Option(help="games, tools or all.")] = None,
    corpus: Annotated[str, typer.Option(help="builtin, none, or a JSONL or Parquet file.")] = "builtin",
    seed: Annotated[int, typer.Option(help="Root of every random choice.")] = 0,
    budget: Annotated[
        float | None, typer.Option(min=0.0, help="What may be spent in all, in the currency of the prices.")
    ] = None,
    prices: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="IN OUT", help="Prices of an endpoint, for a million tokens in and out."),
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Requests to an endpoint at a time.")] = None,
    reference: Annotated[
        str, typer.Option(metavar="MODEL", help="An agent that plays the pool, to tell how hard it is.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the settings; ask and write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Make a pool of certified environments, without training.

    Each of the environments asked for has up to five attempts; from the second on the model is told what was wrong.
    What is certified is saved as it comes. A pool that was stopped or killed is gone on with by the same command: no
    answer is asked for, or paid, twice.

    Exit code: 0 done (or the budget is spent), 2 wrong usage, 3 an endpoint failed (the rest is saved), 130 Ctrl-C.
    """
    from spade_agents.cli.runs import watched
    from spade_agents.selfplay.design_settings import PoolDesignSettings
    from spade_agents.settings import load_settings, to_toml

    given: list[tuple[str, object]] = [("model", model), ("slots", n), ("corpus", corpus), ("seed", seed)]
    given += [("skills", skills)] if skills is not None else []
    given += [("budget", budget)] if budget is not None else []
    given += [("endpoint.concurrency", concurrency)] if concurrency is not None else []
    given += [("reference.model", reference)] if reference else []
    if prices is not None:
        given += [("endpoint.prompt_price", prices[0]), ("endpoint.completion_price", prices[1])]
    told = [f"{key}={_toml(value)}" for key, value in given]
    settings = load_settings(PoolDesignSettings, None, [*told, *(overrides or [])])
    if dry_run:
        if as_json:
            print_json(settings.model_dump(mode="json"))
        else:
            tell(to_toml(settings).rstrip())
        return
    with watched() as progress:
        result, figures = _made(settings, out, progress)
    _conclude(result, figures, as_json=as_json)


def _made(settings: PoolDesignSettings, out: Path, progress: ProgressReporter) -> tuple[PoolDesigned, PoolFigures]:
    import asyncio

    from spade_agents.selfplay.design_journal import alone_at
    from spade_agents.selfplay.pool_card import write_card
    from spade_agents.selfplay.pool_designer import design_pool
    from spade_agents.selfplay.pool_figures import pool_figures

    _check_reference(settings.reference.model)
    result = design_pool(settings, out, progress=progress)
    with alone_at(out):
        if settings.reference.model:
            progress.begin("playing", 0)
            asyncio.run(_played(settings, out))
        figures = pool_figures(out)
        write_card(out, figures, _facts(settings, result))
    return result, figures


def _check_reference(model: str) -> None:
    """See that the agent that is to play is there, before a pool is paid for."""
    from spade_agents.policy import model_folder

    if model and "://" not in model and not model.startswith("scripted:"):
        model_folder(model)


async def _played(settings: PoolDesignSettings, out: Path) -> None:
    from spade_agents.policy import open_policy
    from spade_agents.selfplay.pool import Pool
    from spade_agents.selfplay.reference import play_reference
    from spade_environments.sandbox import open_sandbox

    async with open_sandbox(settings.sandbox) as sandbox, open_policy(settings.reference.model) as opened:
        policy: Policy = opened
        await play_reference(Pool(out), policy, sandbox, settings.reference, seed=settings.seed)


def _facts(settings: PoolDesignSettings, result: PoolDesigned) -> dict[str, Any]:
    from datetime import UTC, datetime

    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": settings.model,
        "seed": settings.seed,
        "corpus": settings.corpus,
        "reference agent": settings.reference.model,
        "completions": result.spent.completions,
        "tokens in": result.spent.prompt_tokens,
        "tokens out": result.spent.completion_tokens,
        "price": round(result.spent.price, 4) or None,
    }


def _conclude(result: PoolDesigned, figures: PoolFigures, *, as_json: bool) -> None:
    from spade_agents.selfplay.pool_card import card_lines
    from spade_agents.selfplay.pool_designer import check_answered

    spent = result.spent
    if as_json:
        cost = {
            "completions": spent.completions,
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "price": spent.price,
            "cached": result.cached,
            "requests": result.requests,
            "retries": result.retries,
        }
        print_json({"pool": str(result.path), "undone": dict(result.undone), "cost": cost, **figures.row()})
    else:
        price = f", price {spent.price:.4f}" if spent.price else ""
        cost_line = (
            f"cost: {spent.completions} completions, {spent.prompt_tokens} tokens in, {spent.completion_tokens} out"
            f"{price}; {result.cached} were there already, {result.retries} requests were made again"
        )
        tell("\n".join([*card_lines(figures), cost_line, f"pool: {result.path} (card: {result.path / 'README.md'})"]))
    if result.undone["budget"]:
        tell(f"{result.undone['budget']} slots are open: {result.told}", err=True)
    check_answered(result)


def _toml(value: object) -> str:
    """A value as an override has it: text in quotes, so that a name such as 1e3 stays a name."""
    import json

    return json.dumps(value)
