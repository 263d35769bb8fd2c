"""Real Python clients play a catalogue environment's gold solution to its end, over stdio and over HTTP."""

from __future__ import annotations

import pytest

from tests.tools.clients.install import python_of
from tests.tools.clients.playing import HERE, assert_played_to_the_end, play_over_http, play_over_stdio

CLIENTS = {
    "mcp 1.30": ("old_sdk", "old_sdk.py"),
    "openai-agents": ("openai_agents", "openai_agents.py"),
    "pydantic-ai": ("pydantic_ai", "pydantic_ai_agent.py"),
}


@pytest.fixture(params=CLIENTS)
def client(request):
    name, script = CLIENTS[request.param]
    return python_of(name), HERE / script


async def test_it_plays_over_stdio(client):
    assert_played_to_the_end(*await play_over_stdio(*client))


async def test_it_plays_over_http_and_the_trainer_reads_the_reward(client):
    found, calls, report = await play_over_http(*client)
    assert_played_to_the_end(found, calls)
    assert (report.outcome, report.reward, report.turns) == ("scored", 1.0, len(calls))
