"""Tools and MCP: the wire between an environment and an agent."""

from spade_tools.episode import ServedEpisode, open_episode
from spade_tools.http import EpisodeApp, HttpServer, serve_http
from spade_tools.server import EpisodeServer
from spade_tools.settings import HttpSettings
from spade_tools.stdio import serve_stdio, stop_signal
from spade_tools.types import (
    EpisodeCreated,
    EpisodeLimits,
    EpisodeOutcome,
    EpisodeReport,
    EpisodeRequest,
    Exchange,
    Mode,
    Phase,
)

__all__ = [
    "EpisodeApp",
    "EpisodeCreated",
    "EpisodeLimits",
    "EpisodeOutcome",
    "EpisodeReport",
    "EpisodeRequest",
    "EpisodeServer",
    "Exchange",
    "HttpServer",
    "HttpSettings",
    "Mode",
    "Phase",
    "ServedEpisode",
    "open_episode",
    "serve_http",
    "serve_stdio",
    "stop_signal",
]
