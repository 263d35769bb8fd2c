"""`spade-eval run`: preflight, run or resume, and the table at the end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade_evals.cli.options import (
    ATTEMPT_SECONDS,
    BackendOption,
    DataOption,
    LimitOption,
    MaxTokensOption,
    NOption,
    ResumeOption,
    VllmPythonOption,
    vllm_settings,
)

if TYPE_CHECKING:
    from spade_evals.runner import Prices

__all__ = ["run"]

ModelOption = Annotated[
    str, typer.Option(help="PATH | nano | smollm2 | URL#MODEL | scripted:gold|silent|random|FILE.jsonl")
]
SuiteOption = Annotated[list[str], typer.Option(help="A suite, or one part of it as NAME:PART; may be given again.")]
OutOption = Annotated[Path, typer.Option(help="Folder of the log; of several suites, each has a folder below it.")]
PriceOption = Annotated[
    str | None, typer.Option(metavar="IN,OUT", help="Of a million tokens; IN,OUT,IN,OUT with the user's.")
]
AllowMissingOption = Annotated[
    bool, typer.Option("--allow-missing", help="Run what can run; the rest counts as not run.")
]
TranscriptsOption = Annotated[
    bool, typer.Option("--transcripts/--no-transcripts", help="Keep conversations in the log.")
]


def run(
    model: ModelOption,
    suite: SuiteOption,
    out: OutOption,
    limit: LimitOption = None,
    n: NOption = None,
    max_tokens: MaxTokensOption = None,
    user_model: Annotated[str | None, typer.Option(help="Who plays the user where a suite has one.")] = None,
    backend: BackendOption = "auto",
    vllm_python: VllmPythonOption = "",
    data: DataOption = None,
    protocol: Annotated[str | None, typer.Option(help="Named variant of a suite's settings: paper, release.")] = None,
    seed: Annotated[int, typer.Option(help="Of instances, shuffling and sampling.")] = 0,
    draw: Annotated[int, typer.Option(help="Tells repetitions apart: same instances, other samples.")] = 0,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Attempts at once.")] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="Wall-clock limit of one attempt.")] = ATTEMPT_SECONDS,
    price: PriceOption = None,
    resume: ResumeOption = False,
    allow_missing: AllowMissingOption = False,
    transcripts: TranscriptsOption = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
) -> None:
    """Evaluate a model on suites.

    Every file and package that the suites need is looked for first. Exit code 0 where every sample was taken, 3 where
    something could not be decided: infrastructure errors, columns that could not run.
    """
    from spade_agents.policy.open import backend_named
    from spade_evals.cli.stopping import run_to_end
    from spade_evals.cli.tables import log_lines, summaries_json
    from spade_evals.evaluate import RunRequest, evaluate
    from spade_evals.runner import RunOptions

    prices = _prices(price) if price else None
    options = RunOptions(
        limit=limit, n=n, max_tokens=max_tokens, concurrency=concurrency, prices=prices, transcripts=transcripts
    )
    request = RunRequest(
        model=model,
        suites=tuple(suite),
        out=out,
        options=options,
        user_model=user_model,
        backend=backend_named(backend),
        vllm=vllm_settings(vllm_python, seconds=seconds),
        data=data,
        protocol=protocol,
        seed=seed,
        draw=draw,
        seconds=seconds,
        resume=resume,
        allow_missing=allow_missing,
    )
    finished = run_to_end(evaluate(request))
    typer.echo(summaries_json(finished) if as_json else "\n".join(line for one in finished for line in log_lines(*one)))
    if not all(summary.is_complete for _, summary in finished):
        raise typer.Exit(3)


def _prices(text: str) -> Prices:
    from spade_evals.runner import Prices

    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) not in (2, 4) or not all(math.isfinite(price) and price >= 0 for price in found):
        raise typer.BadParameter(
            f"found {text!r}; wanted two numbers, IN,OUT, such as 0.5,1.5, and where the user model costs too two more"
        )
    return Prices(*found)
