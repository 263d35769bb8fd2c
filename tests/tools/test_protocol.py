"""Requests that are none, and params that do not fit: told in the terms of the protocol, and no turn is taken."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp.server.runner import modern_on_request
from mcp.shared.direct_dispatcher import create_direct_dispatcher_pair
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from pydantic import ValidationError

from spade_tools import EpisodeRequest, EpisodeServer, open_episode
from tests.tools.served import PULLS, VAULT, inline, over_http
from tests.tools.walker import ENVELOPE, NEWER, OLDER, Walker

VERSIONS = (NEWER, OLDER)


async def walking(server, raw, version):
    created = await server.create(EpisodeRequest(environment="vault", seed=3))
    walker = Walker(raw, created.url, version)
    await walker.say_hello()
    await walker.tell("notifications/initialized")
    await walker.call("get_task", {})
    return created, walker


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_tool_call_sent_as_a_notification_does_nothing(version):
    async with over_http() as server, httpx2.AsyncClient() as raw:
        created, walker = await walking(server, raw, version)
        answer = await walker.tell("tools/call", name="pull", arguments={"times": PULLS})
        assert answer.status_code < 500
        assert "result" not in answer.text
        assert server.report(created.id).turns == 0
        found = (await walker.call("pull", {"times": 1})).json()["result"]["structuredContent"]
        assert found == {"observation": "the lever was pulled 1 times", "over": False}
        assert server.report(created.id).turns == 1


MALFORMED = {
    "no name": {"arguments": {"times": 1}},
    "arguments that are text": {"name": "pull", "arguments": '{"times": 1}'},
    "arguments that are a list": {"name": "pull", "arguments": [1]},
    "arguments that are a number": {"name": "pull", "arguments": 1},
    "a progress token that is an object": {"name": "pull", "arguments": {"times": 1}, "_meta": {"progressToken": {}}},
    "nothing": {},
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", MALFORMED)
async def test_malformed_params_are_told_as_invalid_and_the_episode_stays_as_it_was(case, version):
    params = MALFORMED[case]
    if version == NEWER:
        params = params | {"_meta": ENVELOPE | params.get("_meta", {})}
    async with over_http() as server, httpx2.AsyncClient() as raw:
        created, walker = await walking(server, raw, version)
        answer = await walker.ask_bare("tools/call", params)
        assert answer.json()["error"]["code"] == INVALID_PARAMS
        assert server.report(created.id).turns == 0
        assert "structuredContent" in (await walker.call("pull", {"times": 1})).json()["result"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_without_arguments_has_none(version):
    async with over_http() as server, httpx2.AsyncClient() as raw:
        _, walker = await walking(server, raw, version)
        found = (await walker.ask("tools/call", name="pull")).json()["result"]["structuredContent"]
        assert found["error"] == "missing_argument"


LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_cursor_that_nobody_gave_out_is_refused(version):
    async with over_http() as server, httpx2.AsyncClient() as raw:
        _, walker = await walking(server, raw, version)
        for method in LISTS:
            assert (await walker.ask(method, cursor="2")).json()["error"]["code"] == INVALID_PARAMS
            assert "nextCursor" not in (await walker.ask(method)).json()["result"]


async def test_requests_beyond_so_many_at_once_are_refused_and_those_before_them_are_answered():
    async with over_http(requests=3) as server, httpx2.AsyncClient(limits=httpx2.Limits()) as raw:
        created, walker = await walking(server, raw, NEWER)
        at_once = [walker.call("pull", {"times": 1}) for _ in range(5)]
        found = sorted(answer.status_code for answer in await asyncio.gather(*at_once))
        assert found[:3] == [200, 200, 200]
        assert set(found) <= {200, 429}
        live = server.table.get(created.id)
        assert (live.free_requests, server.report(created.id).turns) == (3, found.count(200))
        live.free_requests = 0
        refused = await walker.call("pull", {"times": 1})
        assert (refused.status_code, "at once" in refused.text) == (429, True)


async def test_an_episodes_url_may_end_in_a_slash():
    async with over_http() as server, httpx2.AsyncClient() as raw:
        created, walker = await walking(server, raw, NEWER)
        walker.url += "/"
        assert (await walker.call("pull", {"times": 1})).status_code == 200
        assert server.report(created.id).turns == 1


@asynccontextmanager
async def asking(server):
    """A function that hands params to `server` as they are, in this process: nothing is written down in between."""
    near, far = create_direct_dispatcher_pair()

    async def pass_over(*_):
        pass

    async with anyio.create_task_group() as group:
        await group.start(far.run, modern_on_request(server, {}), pass_over)
        await group.start(near.run, pass_over, pass_over)
        yield lambda params: near.send_raw_request("tools/call", params)
        near.close()
        far.close()


async def test_a_meta_that_its_client_spoils_after_a_call_is_not_taken_for_the_one_that_was_checked():
    async with inline(VAULT) as sandbox:
        episode = await open_episode(sandbox, VAULT, EpisodeRequest(environment="vault", seed=3))
        async with asking(EpisodeServer(episode).server) as ask:
            meta = dict(ENVELOPE)
            pull = {"name": "pull", "arguments": {"times": 1}}
            for _ in range(2):
                assert not (await ask(pull | {"_meta": meta}))["isError"]
            meta["io.modelcontextprotocol/clientCapabilities"] = []
            for spoilt in (meta, dict(meta)):
                with pytest.raises(MCPError) as refused:
                    await ask(pull | {"_meta": spoilt})
                assert refused.value.code == INVALID_PARAMS
        assert episode.report().turns == 2
        await episode.aclose()


async def test_no_meta_is_taken_for_one_that_was_checked_before_any_was():
    async with inline(VAULT) as sandbox:
        episode = await open_episode(sandbox, VAULT, EpisodeRequest(environment="vault", seed=3))
        with pytest.raises(ValidationError):
            EpisodeServer(episode)._checked({"name": "pull", "arguments": {}, "_meta": None}, NEWER)
        await episode.aclose()


async def test_a_host_is_known_by_its_name_in_capitals_too():
    async with over_http() as server, httpx2.AsyncClient() as raw:
        for host, status in (("LOCALHOST:80", 401), ("LocalHost.evil.example", 421)):
            assert (await raw.get(server.url + "/episodes", headers={"Host": host})).status_code == status
