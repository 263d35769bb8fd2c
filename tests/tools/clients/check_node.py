"""Real Node clients: the TypeScript SDK, the Inspector with its strict lint of schemas, and the conformance suite."""

from __future__ import annotations

import json

import pytest

from spade_environments import EnvironmentSpec, Skill, ToolCall
from spade_environments.registry import catalogue, find
from spade_environments.sandbox import open_sandbox
from spade_tools import EpisodeLimits, EpisodeRequest, McpUrl, open_toolset, serve_http
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
from tests.tools.foreign_servers import brittle


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
        assert "Warning" not in err
        assert len(json.loads(out)["tools"]) >= 2


async def test_the_inspectors_lint_finds_a_schema_that_is_not_portable():
    bad = brittle([{"name": "a", "inputSchema": {"type": "object", "properties": {"x": True}}}])
    code, _, err = await run(
        node_program(), npm_program("mcp-inspector"), "--cli", bad.command, *bad.arguments, "--method", "tools/list",
        "--strict",
    )  # fmt: skip
    assert code == 6, err


FIXTURE = '''from spade_environments import Call, Goal, ToolEnv, ToolError, tool


class Fixture(ToolEnv):
    max_turns = 25

    def setup(self):
        self.state = {}

    @tool
    def test_simple_text(self) -> str:
        """Answer with a fixed text."""
        return "This is a simple text response for testing."

    @tool
    def test_error_handling(self) -> str:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    def goals(self):
        return [Goal("called", "Call it.", lambda state, calls, reply: bool(calls))]

    def solution(self):
        return [[Call("test_simple_text")]]
'''


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_conformance_suite_passes_but_for_a_list_with_reasons(revision):
    """The suite fails where a scenario outside the list does, and where one inside it passes."""
    spec = EnvironmentSpec(name="fixture", source=FIXTURE, skill=Skill.TOOL_SELECTION)
    listed = HERE / f"conformance_{revision}.yaml"
    async with open_sandbox() as sandbox, serve_http([spec], sandbox) as server:
        limits = EpisodeLimits(turns=1000)
        created = await server.create(EpisodeRequest(environment="fixture", seed=0, limits=limits))
        code, out, err = await run(
            node_program(), npm_program("conformance"), "server", "--url", created.url, "--requirements", revision,
            "--expected-failures", listed,
        )  # fmt: skip
    assert code == 0, out[-3000:] + err[-1000:]
    assert "Baseline check passed" in out
    assert "tools-call-simple-text: 2 passed, 0 failed" in out
