"""The command line, `spade`: thin commands over the library, each importing what it needs only when it runs."""

from spade_agents.cli.app import app, main

__all__ = ["app", "main"]
