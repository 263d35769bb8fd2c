"""The same environment, seed and actions: the same observations to the byte, whatever carries them."""

from __future__ import annotations

import sys

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from spade_environments import Reply, ToolCall
from spade_environments.registry import find
from spade_environments.sandbox import InlineSandboxSettings, open_sandbox
from spade_tools import EpisodeRequest, HttpSettings, serve_http
from tests.tools.served import PATIENT

SPADE = [sys.executable, "-c", "from spade_agents.cli import main; main()"]
SEED = 11


async def actions_of(spec):
    """Gold, with malformed calls in between, and one call after the end."""
    async with open_sandbox(InlineSandboxSettings()) as sandbox, await sandbox.open(spec) as env:
        await env.reset(SEED)
        gold = await env.solution()
    odd = [ToolCall(name="nothing", arguments={"\x00": "é"}), ToolCall(name="act", arguments={"action": "\u202e ☃ \n"})]
    return (*odd, *gold)


async def directly(spec, actions, settings):
    async with open_sandbox(settings) as sandbox, await sandbox.open(spec) as env:
        texts = [(await env.reset(SEED)).text]
        for action in actions:
            texts.append((await env.step(action)).observation.text)
        return texts


async def by_client(client, actions):
    texts = [(await client.call_tool("get_task", {})).structured_content["observation"]]
    for action in actions:
        name, arguments = ("finish_turn", {"message": action.text}) if isinstance(action, Reply) else called(action)
        result = await client.call_tool(name, arguments)
        assert result.content[0].text == result.structured_content["observation"]
        texts.append(result.content[0].text)
    return texts


def called(action):
    return action.name, dict(action.arguments)


@pytest.mark.parametrize("name", ["release_board", "rail_trip", "signal_box"])
async def test_observations_are_the_same_to_the_byte_on_every_way(name):
    spec = find(name)
    actions = await actions_of(spec)
    inline = await directly(spec, actions, InlineSandboxSettings())
    assert await directly(spec, actions, PATIENT) == inline
    async with (
        open_sandbox(PATIENT) as sandbox,
        serve_http([spec], sandbox, settings=HttpSettings()) as server,
    ):
        for era in ("auto", "legacy"):
            created = await server.create(EpisodeRequest(environment=name, seed=SEED))
            async with Client(created.url, mode=era) as client:
                assert await by_client(client, actions) == inline
            assert server.report(created.id).reward == 1.0
    served = StdioServerParameters(command=SPADE[0], args=[*SPADE[1:], "serve", name, "--seed", str(SEED)])
    async with Client(stdio_client(served)) as client:
        assert await by_client(client, actions) == inline
