"""Bad input of every kind: a tool error or a protocol error, the episode intact, no stack trace, no free reward."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import httpx2
import msgspec
import pytest
from mcp import Client

from spade_environments.sandbox import open_sandbox
from spade_tools import EpisodeRequest, EpisodeServer, Mode, open_episode
from tests.tools.served import ERAS, FIRST, PATIENT, PULLS, VAULT, acting, in_memory, over_http, said

BAD_CALLS = {
    "an unknown tool": ("pul", {"times": 1}, "unknown_tool"),
    "a locked tool": ("open_door", {}, "unknown_tool"),
    "a name of a megabyte": ("x" * 2**20, {}, "unknown_tool"),
    "a wrong type": ("pull", {"times": "1"}, "wrong_type"),
    "a boolean for an integer": ("pull", {"times": True}, "wrong_type"),
    "a fraction for an integer": ("pull", {"times": 1.0}, "wrong_type"),
    "a null": ("pull", {"times": None}, "wrong_type"),
    "a missing argument": ("pull", {}, "missing_argument"),
    "an extra argument": ("pull", {"times": 1, "reward": 1}, "unexpected_argument"),
    "arguments encoded twice": ("echo", {"text": "x", "parts": json.dumps(["a", "b"])}, "double_encoded"),
    "a string of a megabyte": ("echo", {"text": "x" * 2**20}, "too_long"),
    "a deep list": ("echo", {"text": "x", "parts": json.loads("[" * 60 + "]" * 60)}, "too_long"),
    "an integer of 400 digits": ("pull", {"times": 10**400}, "not_finite"),
    "half a surrogate pair": ("echo", {"text": "\ud800"}, "not_text"),
    "a reply with half a surrogate pair": ("finish_turn", {"message": "\ud800"}, "not_text"),
    "a reply of a megabyte": ("finish_turn", {"message": "x" * 2**20}, "too_long"),
    "finish_turn without a message": ("finish_turn", {}, "missing_argument"),
    "finish_turn with a number": ("finish_turn", {"message": 3}, "wrong_type"),
    "finish_turn with more": ("finish_turn", {"message": "", "reward": 1}, "unexpected_argument"),
    "get_task with arguments": ("get_task", {"seed": 1}, "unexpected_argument"),
}


async def is_intact(client):
    """The episode goes on, and is won by what wins it."""
    assert said(await client.call_tool("get_task", {})) == (FIRST, False, False)
    assert said(await client.call_tool("pull", {"times": PULLS})) == (
        f"the lever was pulled {PULLS} times",
        False,
        False,
    )
    return said(await client.call_tool("finish_turn", {"message": ""})) == ("Open the door.", False, False)


@pytest.mark.parametrize("case", BAD_CALLS)
async def test_a_malformed_call_is_a_tool_error_and_the_episode_goes_on(case):
    tool, arguments, kind = BAD_CALLS[case]
    async with in_memory() as (episode, client):
        result = await client.call_tool(tool, arguments)
        assert (result.is_error, result.structured_content["error"]) == (True, kind)
        assert len(result.content[0].text) < 600
        assert "Traceback" not in result.content[0].text
        assert await is_intact(client)
        assert episode.reward is None
        assert len(msgspec.json.encode(episode.report())) < 10_000


async def post(client, url, body, **headers):
    named = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return await client.post(url, content=body, headers={**named, "mcp-protocol-version": "2026-07-28", **headers})


def rpc(method, **params):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


def call(name, arguments):
    return rpc("tools/call", name=name, arguments=arguments)


def named(name):
    return {"mcp-method": "tools/call", "mcp-name": name}


BAD_BODIES = {
    "no JSON": b"{",
    "nothing": b"",
    "not UTF-8": b'"\xff"',
    "a list": b"[]",
    "a number": b"3",
    "no method": b'{"jsonrpc": "2.0", "id": 1}',
    "arguments that are a string": json.dumps(call("pull", '{"times": 1}')).encode(),
    "arguments that are a list": json.dumps(call("pull", [1])).encode(),
    "a name that is a number": json.dumps(call(3, {})).encode(),
    "a hundred thousand brackets": b"[" * 100_000,
    "a name with half a surrogate pair": json.dumps(call("\ud800", {})).encode(),
    "an unknown method": json.dumps(rpc("reward/get")).encode(),
}


@pytest.mark.parametrize("case", BAD_BODIES)
async def test_a_malformed_body_is_a_protocol_error_and_the_episode_goes_on(case):
    async with over_http() as server, httpx2.AsyncClient() as raw:
        created = await server.create(EpisodeRequest(environment="vault", seed=3))
        answer = await post(raw, created.url, BAD_BODIES[case])
        assert 400 <= answer.status_code < 500
        assert answer.json()["error"]["code"] < 0
        assert "Traceback" not in answer.text
        async with Client(created.url) as client:
            assert await is_intact(client)
        assert server.report(created.id).reward is None


async def test_nan_is_a_tool_error_over_http():
    async with over_http() as server, httpx2.AsyncClient() as raw:
        created = await server.create(EpisodeRequest(environment="vault", seed=3))
        body = json.dumps(call("echo", {"text": "x", "weight": float("nan")}))
        answer = await post(raw, created.url, body.encode(), **named("echo"))
        assert answer.json()["result"]["structuredContent"]["error"] == "not_finite"


async def test_a_body_beyond_the_limit_is_refused_and_the_episode_goes_on():
    async with over_http(body_bytes=100_000) as server, httpx2.AsyncClient() as raw:
        created = await server.create(EpisodeRequest(environment="vault", seed=3))
        body = json.dumps(call("echo", {"text": "x" * 200_000})).encode()
        assert (await post(raw, created.url, body, **named("echo"))).status_code == 413
        async with Client(created.url) as client:
            assert await is_intact(client)


@pytest.mark.parametrize("era", ERAS)
async def test_after_the_end_every_call_says_so_and_the_reward_stays(era):
    async with in_memory(era=era) as (episode, client):
        await client.call_tool("finish_turn", {"message": "give up"})
        for tool, arguments in (("pull", {"times": PULLS}), ("finish_turn", {"message": "5"}), ("nothing", {})):
            text, over, is_error = said(await client.call_tool(tool, arguments))
            assert (over, is_error) == (True, True)
            assert "over" in text
        assert (episode.reward, episode.report().turns) == (0.0, 1)


async def test_a_player_calls_out_of_order_and_nothing_happens():
    async with in_memory(mode=Mode.PLAY) as (episode, client):
        text, over, is_error = said(await client.call_tool("pull", {"times": 1}))
        assert (text, over, is_error) == ("Error: the episode has not begun; call reset first.", False, True)
        bad = await client.call_tool("reset", {"seed": "3"})
        assert bad.structured_content["error"] == "wrong_type"
        assert episode.report().turns == 0


async def test_turns_used_up_end_the_episode_without_a_reward():
    async with in_memory() as (episode, client):
        for _ in range(7):
            assert not said(await client.call_tool("pull", {"times": "x"}))[1]
        assert said(await client.call_tool("pull", {"times": 1}))[1]
        assert (episode.report().outcome, episode.reward) == ("agent_error", 0.0)


async def test_an_environment_that_raises_ends_the_episode_and_keeps_its_trace_to_itself():
    async with in_memory() as (episode, client):
        text, over, is_error = said(await client.call_tool("explode", {}))
        assert (text, over, is_error) == ("Error: the environment failed; the episode is over.", True, True)
        assert said(await client.call_tool("pull", {"times": 1})) == (text, True, True)
        report = episode.report()
        assert (report.outcome, report.reward) == ("environment_fault", None)
        assert "SOURCE-MARK" in report.fault


async def test_a_client_whose_first_word_meets_a_reset_that_fails_learns_that_it_failed():
    source = VAULT.source.replace("def setup(self):", "def setup(self):\n        raise RuntimeError('SOURCE-MARK')")
    spec = dataclasses.replace(VAULT, source=source)
    async with in_memory(spec) as (_, client):
        for _ in range(2):
            text, over, is_error = said(await client.call_tool("get_task", {}))
            assert (text, over, is_error) == ("Error: the environment failed; the episode is over.", True, True)


@pytest.mark.parametrize("era", ERAS)
async def test_two_calls_at_once_are_taken_one_after_the_other(era):
    async with in_memory(era=era) as (episode, client):
        results = await asyncio.gather(*(client.call_tool("pull", {"times": 1}) for _ in range(PULLS)))
        assert all(said(result) == ("the lever was pulled 1 times", False, False) for result in results)
        assert said(await client.call_tool("finish_turn", {"message": ""}))[0] == "Open the door."
        assert episode.report().turns == PULLS + 1


async def test_a_client_that_vanishes_in_mid_call_leaves_the_episode_intact():
    """Over HTTP and in the sandbox: the action that had begun counts, and another client goes on."""
    async with over_http(VAULT, sandbox=open_sandbox(PATIENT)) as server:
        created = await server.create(EpisodeRequest(environment="vault", seed=3))
        async with Client(created.url) as client:
            await client.call_tool("pull", {"times": PULLS})
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(call("work", {"rounds": 2_000_000})).encode()
        head = (
            f"POST /episodes/{created.id}/mcp HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: work\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        await acting(server.table.get(created.id).episode)
        writer.transport.abort()
        async with Client(created.url) as client:
            assert said(await client.call_tool("finish_turn", {"message": ""})) == ("Open the door.", False, False)
        assert [exchange.tool for exchange in server.report(created.id).transcript] == ["pull", "work", None]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_its_client_gives_up_is_carried_through(era):
    async with open_sandbox(PATIENT) as sandbox:
        episode = await open_episode(sandbox, VAULT, EpisodeRequest(environment="vault", seed=3))
        async with Client(EpisodeServer(episode).server, mode=era) as client:
            await client.call_tool("get_task", {})
            given_up = asyncio.create_task(client.call_tool("work", {"rounds": 3_000_000}))
            await acting(episode)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            assert given_up.cancelled()
            assert await is_intact(client)
        assert [exchange.tool for exchange in episode.report().transcript] == ["work", "pull", None]
        await episode.aclose()
