"""The `spade-eval` program: its commands, and the boundary where errors become one message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from spade_agents.cli.failures import WrongUsage, described, shown
from spade_agents.cli.output import tell_failure
from spade_agents.cli.runs import STOPPED
from spade_evals.cli import compare, logs, run

__all__ = ["app", "main"]

app = typer.Typer(
    name="spade-eval",
    help="Evaluate checkpoints and endpoints, and compare them without being fooled by noise.",
    epilog="Exit codes: 0 ok, 1 a regression, 2 wrong usage, 3 not decidable (infrastructure, coverage, power).",
    context_settings={"help_option_names": ["-h", "--help"]},  # every command below takes them over
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run", epilog="Example: spade-eval run --model nano --suite environments:catalogue --out logs/nano")(
    run.run
)
app.command("setup", epilog="Example: spade-eval setup bfcl_v4")(logs.setup)
app.command("list", epilog="Example: spade-eval list")(logs.list_suites)
app.command("show", epilog="Example: spade-eval show logs/nano")(logs.show)
app.command("rescore", epilog="Example: spade-eval rescore logs/nano")(logs.rescore)
app.command("report", epilog="Example: spade-eval report logs/base logs/new --out flips.html")(logs.report)
app.command("compare", epilog="Example: spade-eval compare logs/base logs/new --max-drop 0.02")(compare.compare)
app.command("noise", epilog="Example: spade-eval noise --model nano --suite environments:catalogue --out logs/noise")(
    compare.noise
)


@app.callback()
def _options() -> None:
    """Evaluate checkpoints and endpoints, and compare them without being fooled by noise."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `spade-eval`; always ends by `SystemExit` with one of the documented exit codes."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        sys.exit(app(args=arguments, prog_name="spade-eval", standalone_mode=False))
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    except Exception as error:
        if isinstance(error, WrongUsage):
            tell_failure(shown(error), error.exit_code, given)
            sys.exit(error.exit_code)
        failure = described(error)
        if failure is None:
            raise
        tell_failure(f"spade-eval: {failure.message}", failure.exit_code, given)
        sys.exit(failure.exit_code)
