"""A user's own MCP server as an environment to train on, as a configuration names it."""

from __future__ import annotations

from spade_agents.rollout import OwnEnvironment
from spade_tools import McpEnv, McpTask
from tests.tools.foreign_servers import Shelf


def environments():
    return [OwnEnvironment(name="shelf", open=open_shelf)]


def open_shelf():
    tasks = [McpTask(instruction=f"Say something of {number} letters.") for number in range(9)]
    return McpEnv(lambda: Shelf().server, tasks, lambda play: float(len(play.reply) % 2))


def twins():
    return [*environments(), *environments()]


def nothing():
    return []
