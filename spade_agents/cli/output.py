"""What commands print: text for a person, cleaned of whatever would steer the terminal, and JSON as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer

from spade_agents.terminal import visible

__all__ = ["print_json", "tell", "tell_failure"]


def tell(text: object, *, err: bool = False) -> None:
    """Print text for a person, on standard output or standard error."""
    typer.echo(visible(str(text)), err=err)


def print_json(value: Any) -> None:
    """Print a value for a program; JSON escapes control characters by itself, and every value stays exact."""
    typer.echo(json.dumps(value, indent=2))


def tell_failure(message: str, exit_code: int, arguments: Sequence[str]) -> None:
    """Print an error on standard error; where a command was given --json, for a program on standard output too."""
    tell(message, err=True)
    if "--json" in arguments:
        print_json({"error": message, "exit_code": exit_code})
