"""The command line, `spade-eval`: thin commands over the library, each importing what it needs only when it runs."""

from spade_evals.cli.app import app, main

__all__ = ["app", "main"]
