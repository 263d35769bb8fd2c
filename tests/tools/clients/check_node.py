"""Real Node clients: the TypeScript SDK, the Inspector with its strict lint of schemas, and the conformance suite."""

from __future__ import annotations

import json

import pytest

from spade_environments import ToolCall
from spade_environments.registry import catalogue, find
from spade_tools import EpisodeRequest, McpUrl, open_toolset
from tests.tools.clients.install import CACHE, node_program, npm_program
from tests.tools.clients.playing import (
    HERE,
    NAME,
    SEED,
    assert_played_to_the_end,
    gold_calls,
    play_over_http,
    play_over_stdio,
    run,
    served,
)


def typescript():
    return node_program(), HERE / "typescript_sdk.mjs", CACHE / "node"


async def inspect(url, *arguments):
    return await run(node_program(), npm_program("mcp-inspector"), "--cli", url, "--transport", "http", *arguments)


async def test_the_typescript_sdk_plays_over_stdio():
    assert_played_to_the_end(*await play_over_stdio(*typescript()))


async def test_the_typescript_sdk_plays_over_http():
    found, calls, report = await play_over_http(*typescript())
    assert_played_to_the_end(found, calls)
    assert report.reward == 1.0


async def test_the_inspector_plays_one_call_a_process():
    async with served() as (server, sandbox):
        calls = await gold_calls(sandbox, find(NAME), SEED)
        created = await server.create(EpisodeRequest(environment=NAME, seed=SEED))
        for call in calls:
            given = [f"{name}={json.dumps(value)}" for name, value in call["arguments"].items()]
            code, out, err = await inspect(
                created.url, "--method", "tools/call", "--tool-name", call["name"],
                *(part for pair in given for part in ("--tool-arg", pair)),
            )  # fmt: skip
            assert code == 0, err
            assert not json.loads(out).get("isError"), out
        assert server.report(created.id).reward == 1.0


@pytest.mark.parametrize("name", [spec.name for spec in catalogue()])
async def test_the_inspector_finds_no_fault_with_the_schemas_locked_tools_included(name):
    async with served() as (server, sandbox):
        created = await server.create(EpisodeRequest(environment=name, seed=SEED))
        async with open_toolset(McpUrl(url=created.url)) as toolset:
            for call in await gold_calls(sandbox, find(name), SEED):
                await toolset.call(ToolCall(name=call["name"], arguments=call["arguments"]))
        assert server.report(created.id).reward == 1.0
        code, out, err = await inspect(created.url, "--method", "tools/list", "--strict")
        assert code == 0, err
        assert len(json.loads(out)["tools"]) >= 2
