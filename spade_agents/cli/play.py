"""`spade play`: a person in the agent's place, in a terminal or through a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from spade_environments import EnvironmentSpec

__all__ = ["play"]


def play(
    target: Annotated[str, typer.Argument(metavar="ENV", help="A catalogue name, a file, or RUN/ID.")],
    seed: Annotated[int | None, typer.Option(help="Which instance; drawn at random if left out.")] = None,
) -> None:
    """Play an environment yourself.

    Name a tool, and its arguments are asked for one by one. Commands begin with a slash: /say hands the turn back to
    the user, /hint shows the hint, /tools and /task show tools and task again, /quit leaves. The score stands at the
    end. Every action counts as a turn, malformed ones too.
    """
    import random

    from spade_agents.cli.sources import one_spec

    spec = one_spec(target).spec
    _play(spec, random.SystemRandom().randrange(10_000) if seed is None else seed)


def _play(spec: EnvironmentSpec, seed: int) -> None:
    from spade_agents.cli.output import tell
    from spade_agents.cli.player import Player
    from spade_agents.cli.runs import STOPPED
    from spade_environments.sandbox.sync import SyncSandbox

    with SyncSandbox() as sandbox, sandbox.open(spec) as env:
        try:
            Player(env, spec, seed).run()
        except EOFError:
            tell("\nThe input has ended, and the episode with it: no score.")
        except KeyboardInterrupt:
            tell("\nStopped: no score.")
            raise typer.Exit(STOPPED) from None
