"""How plays reach their environments: directly, or over MCP, one episode URL each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from spade_agents.rollout.groups import Sandbox

if TYPE_CHECKING:
    from spade_environments.sandbox import Sandbox as EnvironmentSandbox

__all__ = ["Transport", "open_transport"]

Transport = Literal["direct", "mcp"]


@asynccontextmanager
async def open_transport(transport: Transport, sandbox: EnvironmentSandbox) -> AsyncIterator[Sandbox]:
    """What plays open their episodes with.

    Args:
        transport: `direct` hands over the sandbox itself; `mcp` serves it on this machine and plays each episode as an
            MCP client does. Both give the same tokens; direct is faster, mcp is what the outside world sees.
        sandbox: runs the environments; stays open.
    """
    if transport == "direct":
        yield sandbox
        return
    from spade_tools import open_remote_episodes

    async with open_remote_episodes(sandbox) as episodes:
        yield episodes
