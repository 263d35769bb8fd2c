"""One episode over standard input and output."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from spade_tools.episode import ServedEpisode
from spade_tools.server import EpisodeServer

__all__ = ["serve_stdio"]


async def serve_stdio(episode: ServedEpisode) -> None:
    """Serve until the client hangs up; then the episode is ended."""
    served = EpisodeServer(episode)
    try:
        async with stdio_server() as (read, write):
            await served.server.run(read, write, served.server.create_initialization_options())
    finally:
        await served.aclose()
