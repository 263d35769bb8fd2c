"""`spade-eval list`, `show` and `rescore`: what needs no inference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["list_suites", "rescore", "show"]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="A log, or a folder of logs.")]


def list_suites() -> None:
    """List the suites."""
    from spade_evals.suites import suite_names

    for name, told in suite_names().items():
        typer.echo(f"{name:<14}{told}")


def show(
    log: LogArgument,
    samples: Annotated[int, typer.Option(min=0, help="How many samples to print with their transcripts.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Show the table of a log, derived anew from its samples."""
    from spade_evals.cli.tables import log_lines, summaries_json
    from spade_evals.cli.transcripts import transcript_lines
    from spade_evals.log import find_logs
    from spade_evals.summary import summarise

    found = [(one, summarise(one.header(), one.samples())) for one in find_logs(log)]
    if as_json:
        typer.echo(summaries_json(found))
        return
    for one, summary in found:
        typer.echo("\n".join(log_lines(one, summary)))
        for sample in list(one.samples().latest.values())[:samples]:
            typer.echo("\n".join(transcript_lines(sample)))


def rescore(log: LogArgument, data: Annotated[Path | None, typer.Option(help="As for run.")] = None) -> None:
    """Grade the responses of a log again, with this version's grading and without inference.

    Samples whose score changed are appended as a further attempt; the log then bears this version's grading.
    """
    import asyncio

    from spade_evals.cli.tables import log_lines
    from spade_evals.log import find_logs
    from spade_evals.rescoring import rescore_log

    for one in find_logs(log):
        result = asyncio.run(rescore_log(one, data=data))
        typer.echo("\n".join(log_lines(one, result.summary)))
        typer.echo(
            f"  {result.graded} samples graded, {result.changed} changed, {result.graded / result.seconds:.0f} a second"
        )
