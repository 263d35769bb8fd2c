"""Running to the end, or to an orderly one where the process is told to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer

__all__ = ["TERMINATED", "run_to_end"]

T = TypeVar("T")

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a command that SIGTERM ended, as shells have it."""


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, which Ctrl-C already ends in order; SIGTERM does as well: what was opened is closed.

    Raises:
        typer.Exit: SIGTERM ended it, with `TERMINATED`.
    """
    asked = False

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop() -> None:
            nonlocal asked
            if not asked:  # a second one must not cut short what the first began to close
                asked = True
                task.cancel()

        loop.add_signal_handler(signal.SIGTERM, stop)
        try:
            return await work
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        if not asked:
            raise
        raise typer.Exit(TERMINATED) from None
