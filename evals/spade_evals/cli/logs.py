"""`spade-eval list`, `show` and `rescore`: what needs no inference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["list_suites", "report", "rescore", "setup", "show"]

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
    """Grade the responses of a log again, without inference.

    The grading is that of this version.
    Samples whose score changed are appended as a further attempt; the log then bears this version's grading.
    """
    from spade_evals.cli.stopping import run_to_end
    from spade_evals.cli.tables import log_lines
    from spade_evals.log import find_logs
    from spade_evals.rescoring import rescore_log

    for one in find_logs(log):
        result = run_to_end(rescore_log(one, data=data))
        typer.echo("\n".join(log_lines(one, result.summary)))
        typer.echo(
            f"  {result.graded} samples graded, {result.changed} changed, {result.graded / result.seconds:.0f} a second"
        )


def report(
    log: LogArgument,
    candidate: Annotated[
        Path | None, typer.Argument(metavar="[CANDIDATE]", help="A second log: both side by side, with what flipped.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("evaluation.html"),
    max_drop: Annotated[float, typer.Option(min=0.0, max=1.0, help="As for compare.")] = 0.0,
) -> None:
    """Write one HTML file of a log, or of two side by side.

    It holds the tables, and samples with their transcripts.
    """
    from spade_agents.files import write_whole
    from spade_evals.compare import GateSettings
    from spade_evals.log import find_logs
    from spade_evals.reporting import evaluation_html

    others = find_logs(candidate) if candidate is not None else ()
    page = evaluation_html(find_logs(log), others, GateSettings(max_drop=max_drop))
    write_whole(out, page.encode())
    typer.echo(f"wrote {out}")


def setup(
    what: Annotated[str, typer.Argument(help="bfcl_v4 | acebench | aime25 | aime26 | gpqa_diamond | livecodebench_v6")],
    data: Annotated[Path | None, typer.Option(help="Folder for the data of a column; run takes it as --data.")] = None,
) -> None:
    """Make a package's environment, or fetch a column's data.

    An environment is one of its own, apart from this one (bfcl_v4: about 570 MB; acebench, for its agent parts: about
    35 MB). Data comes from the Hugging Face hub, at a pinned commit, and is kept only where its digest fits.
    """
    from spade_agents.errors import UsageError
    from spade_evals.suites.acebench.environment import set_up as set_up_acebench
    from spade_evals.suites.bfcl.environment import set_up as set_up_bfcl
    from spade_evals.suites.hub import HUB

    made = {"bfcl_v4": set_up_bfcl, "bfcl": set_up_bfcl, "acebench": set_up_acebench}
    if what in HUB:
        if data is None:
            raise UsageError(f"setup {what} wants a folder for the data: --data DIR")
        typer.echo(f"ready: {_fetched(what, data)}")
    elif what in made:
        typer.echo(f"ready: {made[what]()}")
    else:
        raise UsageError(f"there is nothing to set up for {what!r}; wanted one of: {', '.join([*made, *HUB])}")


def _fetched(column: str, folder: Path) -> Path:
    from spade_agents.telemetry import open_progress
    from spade_evals.suites.hub import fetch

    with open_progress() as progress:
        progress.begin(column, 1)
        return fetch(column, folder, told=lambda size: progress.phase(f"{size / 2**20:.0f} MiB"))
