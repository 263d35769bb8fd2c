"""One episode over standard input and output, and the signals that end a server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from spade_tools.episode import ServedEpisode
from spade_tools.pipes import standard_streams
from spade_tools.server import EpisodeServer

__all__ = ["serve_stdio", "stop_signal"]


@asynccontextmanager
async def stop_signal() -> AsyncIterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set instead of ending the process."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def serve_stdio(episode: ServedEpisode) -> None:
    """Serve until the client hangs up; then the episode is ended.

    Ctrl-C ends this process at once, and with it the sandbox: a thread that waits for input cannot be interrupted.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    served = EpisodeServer(episode)
    try:
        async with standard_streams() as (read, write):
            await served.server.run(read, write, served.server.create_initialization_options())
    finally:
        await served.aclose()
