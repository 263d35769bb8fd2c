"""`spade train`: run self-play from a configuration, or go on with a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade_agents.cli.output import print_json, tell

if TYPE_CHECKING:
    from spade_agents.selfplay import RunSettings

__all__ = ["train"]


def train(
    config: Annotated[str | None, typer.Argument(metavar="[CONFIG]", help="A .toml file, or a shipped name.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, such as run.seed=1.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run directory to make; runs/NAME by default.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with this run instead.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Tell what the run needs and what would stop it; run and write nothing."),
    ] = False,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the resolved settings as TOML; run and write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Run self-play from a configuration, or go on with a run.

    Ctrl-C stops after the rollout in hand; --resume goes on from there, to the same next batch, and with a larger
    number of rollouts (--resume RUN run.rollouts=48) with a finished run too. An unknown setting is an error, and
    nothing is written before corpus, model, sandbox and --out have been found fit.

    Exit code: 0 finished (--dry-run: fit to start), 2 wrong usage (--dry-run: not fit to start), 3 infrastructure
    failed, 130 stopped by Ctrl-C.
    """
    from spade_agents.cli.runs import conclude, watched
    from spade_agents.errors import UsageError
    from spade_agents.selfplay import resume as go_on
    from spade_agents.selfplay import train as start

    if resume is not None:
        changes = [text for text in (config, *(overrides or ())) if text is not None]
        if out is not None or dry_run or show_settings or not all("=" in text for text in changes):
            raise UsageError(
                "--resume goes on with a run under its own settings; give it nothing else but --json, and KEY=VALUE of "
                "what decides no batch, such as run.rollouts=48"
            )
        with watched() as progress:
            result = go_on(resume, overrides=changes, progress=progress)
        conclude(result, as_json=as_json)
        return
    settings = _settings(config, overrides or [])
    folder = out or Path("runs") / settings.run.name
    if show_settings:
        _show(settings, as_json=as_json)
        return
    if dry_run:
        from spade_agents.cli.dry_run import dry_run as look

        if not look(settings, folder, as_json=as_json):
            raise typer.Exit(UsageError.exit_code)
        return
    with watched() as progress:
        result = start(settings, out=folder, progress=progress)
    conclude(result, as_json=as_json)


def _settings(config: str | None, overrides: list[str]) -> RunSettings:
    from spade_agents.cli.configurations import configuration_path
    from spade_agents.errors import UsageError
    from spade_agents.selfplay import RunSettings
    from spade_agents.settings import load_settings

    if config is None:
        raise UsageError(
            "give a configuration (spade train CONFIG [KEY=VALUE]...) or a run to go on with (--resume RUN)"
        )
    return load_settings(RunSettings, configuration_path(config), overrides)


def _show(settings: RunSettings, *, as_json: bool) -> None:
    from spade_agents.settings import to_toml

    if as_json:
        print_json(settings.model_dump(mode="json"))
    else:
        tell(to_toml(settings).rstrip())
