"""Tools and MCP: the wire between an environment and an agent."""

from spade_tools.control_client import ControlClient, open_control
from spade_tools.episode import RequestError, ServedEpisode, open_episode
from spade_tools.http import EpisodeApp, HttpServer, serve_http
from spade_tools.mcp_env import FinishedPlay, MadeCall, McpEnv, McpTask
from spade_tools.python_server import RUN_PYTHON, python_server, serve_python
from spade_tools.remote import EpisodeControl, RemoteEpisode, RemoteEpisodes, open_remote_episodes
from spade_tools.server import EpisodeServer
from spade_tools.settings import HttpSettings
from spade_tools.stdio import serve_stdio, stop_signal
from spade_tools.toolset import McpCommand, McpTarget, McpToolset, McpUrl, ToolAnswer, Toolset, open_toolset
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
    "RUN_PYTHON",
    "ControlClient",
    "EpisodeApp",
    "EpisodeControl",
    "EpisodeCreated",
    "EpisodeLimits",
    "EpisodeOutcome",
    "EpisodeReport",
    "EpisodeRequest",
    "EpisodeServer",
    "Exchange",
    "FinishedPlay",
    "HttpServer",
    "HttpSettings",
    "MadeCall",
    "McpCommand",
    "McpEnv",
    "McpTarget",
    "McpTask",
    "McpToolset",
    "McpUrl",
    "Mode",
    "Phase",
    "RemoteEpisode",
    "RemoteEpisodes",
    "RequestError",
    "ServedEpisode",
    "ToolAnswer",
    "Toolset",
    "open_control",
    "open_episode",
    "open_remote_episodes",
    "open_toolset",
    "python_server",
    "serve_http",
    "serve_python",
    "serve_stdio",
    "stop_signal",
]
