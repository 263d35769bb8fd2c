"""The `spade` program: its commands, and the boundary where errors become one message and an exit code."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from spade_agents.cli import (
    agent,
    corpus,
    demo,
    design,
    doctor,
    env,
    memory,
    model,
    nano,
    play,
    pool,
    report,
    serve,
    tokens,
    train,
)
from spade_agents.cli.failures import WrongUsage, described, shown
from spade_agents.cli.output import tell_failure
from spade_agents.cli.runs import STOPPED

__all__ = ["app", "main"]

app = typer.Typer(
    name="spade",
    help="One language model writes its own training environments and learns from them.",
    epilog="Exit codes: 0 ok, 1 a check failed, 2 wrong usage, 3 not decidable. Start with: spade demo --quick",
    context_settings={"help_option_names": ["-h", "--help"]},  # every command below takes them over
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo", epilog="Example: spade demo --quick")(demo.demo)
app.command("train", epilog="Example: spade train nano run.rollouts=8 --out runs/first")(train.train)
app.command("design", epilog="Example: spade design --model nano --n 20 --out pool")(design.design)
app.command("report", epilog="Example: spade report runs/demo")(report.report)
app.command("tokens", epilog="Example: spade tokens runs/demo 0/3")(tokens.tokens)
app.add_typer(nano.app, name="nano")
app.add_typer(model.app, name="model")
app.add_typer(env.app, name="env")
app.add_typer(agent.app, name="agent")
app.add_typer(pool.app, name="pool")
app.add_typer(corpus.app, name="corpus")
app.add_typer(memory.app, name="memory")
app.command("play", epilog="Example: spade play ticket_desk --seed 3")(play.play)
app.command("serve", epilog="Example: spade serve ticket_desk --transport http --port 8765")(serve.serve)
app.command("doctor", epilog="Example: spade doctor --json")(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("spade-agents"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """One language model writes its own training environments and learns from them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `spade`; always ends by `SystemExit` with one of the documented exit codes.

    An error that the library defines is printed to stderr as one message; any other passes with its traceback, because
    it is a fault of this program and the traceback is what its developers need.
    """
    _print_what_the_terminal_lacks()
    try:
        sys.exit(app(args=arguments, prog_name="spade", standalone_mode=False))
    except KeyboardInterrupt:  # before any command could take it
        sys.exit(STOPPED)
    except Exception as error:
        given = sys.argv[1:] if arguments is None else arguments
        if isinstance(error, WrongUsage):
            tell_failure(shown(error), error.exit_code, given)
            sys.exit(error.exit_code)
        failure = described(error)
        if failure is None:
            raise
        tell_failure(f"spade: {failure.message}", failure.exit_code, given)
        sys.exit(failure.exit_code)


def _print_what_the_terminal_lacks() -> None:
    """Write out, rather than fail at, characters that the output's encoding has not."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
