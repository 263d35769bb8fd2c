"""`spade report`: write a run's page again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(run: Annotated[Path, typer.Argument(help="The folder that a run wrote.")]) -> None:
    """Write the report of a run, and name it.

    The run may be finished or not; report.html is one file that loads nothing from anywhere.
    """
    from spade_agents.cli.output import tell
    from spade_agents.selfplay.reporting import write_report

    tell(write_report(run))
