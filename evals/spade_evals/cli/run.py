"""`spade-eval run`: preflight, run or resume, and the table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["run"]


def run(
    model: Annotated[
        str, typer.Option(help="PATH | nano | smollm2 | URL#MODEL | scripted:gold|silent|random|FILE.jsonl")
    ],
    suite: Annotated[list[str], typer.Option(help="A suite, or one part of it as NAME:PART; may be given again.")],
    out: Annotated[Path, typer.Option(help="Folder of the log; of several suites, each has a folder below it.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first tasks of each column.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Samples of each task, in place of the protocol's.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of a completion, in place of the protocol's.")] = None,
    user_model: Annotated[str | None, typer.Option(help="Who plays the user where a suite has one.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the files that only you can supply.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Named variant of a suite's settings: paper, release.")] = None,
    seed: Annotated[int, typer.Option(help="Of instances, shuffling and sampling.")] = 0,
    draw: Annotated[int, typer.Option(help="Tells repetitions apart: same instances, other samples.")] = 0,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Attempts at once.")] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="Wall-clock limit of one attempt.")] = 600.0,
    price: Annotated[str | None, typer.Option(help="Price of a million tokens, IN,OUT: the cost is shown.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the log at --out: only what is missing.")
    ] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Run what can run; the rest counts as not run.")
    ] = False,
    transcripts: Annotated[
        bool, typer.Option("--transcripts/--no-transcripts", help="Keep conversations in the log.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
) -> None:
    """Evaluate a model on suites.

    Every file and package that the suites need is looked for first. Exit code 0 where every sample was taken, 3 where
    something could not be decided: infrastructure errors, columns that could not run.
    """
    import asyncio

    from spade_evals.cli.tables import log_lines, summaries_json
    from spade_evals.evaluate import RunRequest, evaluate
    from spade_evals.runner import RunOptions

    options = RunOptions(
        limit=limit,
        n=n,
        max_tokens=max_tokens,
        concurrency=concurrency,
        prices=_prices(price) if price else None,
        transcripts=transcripts,
    )
    request = RunRequest(
        model=model,
        suites=tuple(suite),
        out=out,
        options=options,
        user_model=user_model,
        data=data,
        protocol=protocol,
        seed=seed,
        draw=draw,
        seconds=seconds,
        resume=resume,
        allow_missing=allow_missing,
    )
    finished = asyncio.run(evaluate(request))
    typer.echo(summaries_json(finished) if as_json else "\n".join(line for one in finished for line in log_lines(*one)))
    if not all(summary.is_complete for _, summary in finished):
        raise typer.Exit(3)


def _prices(text: str) -> tuple[float, float]:
    try:
        tokens_in, tokens_out = (float(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"found {text!r}; wanted two numbers, IN,OUT, such as 0.5,1.5") from error
    return tokens_in, tokens_out
