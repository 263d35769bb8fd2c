"""The control plane, its guards and limits, and the ends of episodes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time

import httpx2
import pytest
from mcp import Client, MCPError

from spade_environments import EnvironmentSpec, Skill
from spade_environments.sandbox import open_sandbox
from spade_tools import EpisodeRequest
from spade_tools.sockets import close_overdue
from spade_tools.table import FullError
from tests.tools.served import FIRST, PATIENT, PULLS, VAULT, acting, over_http, said

TOKEN = {"Authorization": "Bearer the token"}
WANTED = {"environment": "vault", "seed": 3}
LATER = 1e6


async def trainer(server, **options):
    return httpx2.AsyncClient(base_url=server.url, headers=TOKEN, **options)


async def test_a_trainer_makes_an_episode_reads_how_it_went_and_ends_it():
    async with over_http() as server, await trainer(server) as control:
        made = await control.post("/episodes", json=WANTED)
        assert made.status_code == 201
        created = made.json()
        assert len(created["id"]) >= 32
        assert created["url"] == f"{server.url}/episodes/{created['id']}/mcp"
        async with Client(created["url"]) as client:
            await client.call_tool("pull", {"times": PULLS})
            at = f"/episodes/{created['id']}"
            running = (await control.get(at)).json()
            assert (running["phase"], running["outcome"], running["reward"]) == ("running", None, None)
            for message in ("", "", str(PULLS)):
                await client.call_tool("open_door", {})
                await client.call_tool("finish_turn", {"message": message})
        report = (await control.get(at)).json()
        assert (report["outcome"], report["reward"], report["seed"], report["opening"]) == ("scored", 1.0, 3, FIRST)
        assert [exchange["tool"] for exchange in report["transcript"]][:2] == ["pull", "open_door"]
        assert report["transcript"][-1]["reward"] == 1.0
        assert (await control.delete(at)).json()["reward"] == 1.0
        assert (await control.get(at)).status_code == (await control.delete(at)).status_code == 404
        assert len(server.table) == 0


@pytest.mark.parametrize("header", ["bearer the token", "BEARER the token", "Bearer   the token"])
async def test_the_scheme_is_known_whatever_its_case(header):
    async with over_http() as server, httpx2.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/episodes/x", headers={"Authorization": header})).status_code == 404


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer another"}, {"Authorization": "the token"}])
async def test_without_the_token_nothing_is_told(header):
    async with over_http() as server, httpx2.AsyncClient(base_url=server.url) as stranger:
        created = await server.create(EpisodeRequest(**WANTED))
        at = f"/episodes/{created.id}"
        for answer in (
            await stranger.post("/episodes", json=WANTED, headers=header),
            await stranger.get(at, headers=header),
            await stranger.delete(at, headers=header),
            await stranger.get("/elsewhere", headers=header),
        ):
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert len(server.table) == 1


async def test_the_key_of_an_episode_is_no_key_to_the_control_plane():
    async with over_http() as server, httpx2.AsyncClient(base_url=server.url) as client:
        created = await server.create(EpisodeRequest(**WANTED))
        answer = await client.get(f"/episodes/{created.id}", headers={"Authorization": f"Bearer {created.id}"})
        assert answer.status_code == 401


BAD_REQUESTS = {
    "no JSON": b"{",
    "nothing": b"",
    "a list": b"[]",
    "no environment": b"{}",
    "an unknown field": {**WANTED, "reward": 1},
    "an unknown limit": {**WANTED, "limits": {"money": 1}},
    "a seed that is text": {**WANTED, "seed": "3"},
    "a seed of a hundred digits": {**WANTED, "seed": 10**100},
    "an unknown mode": {**WANTED, "mode": "admin"},
    "no turns": {**WANTED, "limits": {"turns": 0}},
    "no time": {**WANTED, "limits": {"idle_seconds": 0}},
    "a hint for an agent": {**WANTED, "hint": True},
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
async def test_a_request_that_cannot_be_is_refused_with_a_reason(case):
    body = BAD_REQUESTS[case]
    async with over_http() as server, await trainer(server) as control:
        answer = await control.post("/episodes", content=body if isinstance(body, bytes) else json.dumps(body).encode())
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("no episode can be made of this request: ")
        assert len(server.table) == 0


async def test_an_unknown_environment_is_told_with_those_that_are_served():
    async with over_http() as server, await trainer(server) as control:
        answer = await control.post("/episodes", json={"environment": "volt"})
        assert answer.status_code == 404
        assert answer.json()["error"] == "no environment is named 'volt'; give an id, or one of these names: vault"
        by_id = await control.post("/episodes", json={"environment": VAULT.id[:10]})
        assert by_id.json()["environment_id"] == VAULT.id


async def test_an_environment_that_cannot_be_loaded_is_told_to_the_trainer():
    broken = EnvironmentSpec(name="broken", source="import nothing_of_the_kind", skill=Skill.DATA_RETRIEVAL)
    async with over_http(broken) as server, await trainer(server) as control:
        answer = await control.post("/episodes", json={"environment": "broken"})
        assert answer.status_code == 422
        assert "nothing_of_the_kind" in answer.json()["error"]
        assert len(server.table) == 0


async def test_other_methods_and_paths_are_refused():
    async with over_http() as server, await trainer(server) as control:
        wrong = await control.put("/episodes", json=WANTED)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        assert (await control.get("/episodes/a/b/c")).status_code == 404
        assert (await control.post("/episodes", content=b"x" * 100_000)).status_code == 413


async def test_one_episode_more_than_the_server_holds_is_refused_until_one_ends():
    async with over_http(max_episodes=1) as server, await trainer(server) as control:
        first = (await control.post("/episodes", json=WANTED)).json()
        refused = await control.post("/episodes", json=WANTED)
        assert refused.status_code == 503
        assert "1 episode live" in refused.json()["error"]
        assert int(refused.headers["retry-after"]) > 0
        await control.delete(f"/episodes/{first['id']}")
        assert (await control.post("/episodes", json=WANTED)).status_code == 201


async def test_many_requests_at_once_do_not_pass_the_cap():
    async with over_http(VAULT, sandbox=open_sandbox(PATIENT), max_episodes=3) as server:
        results = await asyncio.gather(
            *(server.create(EpisodeRequest(**WANTED)) for _ in range(8)), return_exceptions=True
        )
        assert sum(isinstance(result, FullError) for result in results) == 5
        assert len(server.table) == 3


@pytest.mark.parametrize("identity", ["nonsense", "a" * 32, "..", "%00", "é"])
async def test_a_foreign_or_expired_id_is_a_protocol_error(identity):
    async with over_http() as server, httpx2.AsyncClient(base_url=server.url) as raw:
        answer = await raw.post(f"/episodes/{identity}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status_code in (401, 404)
        assert "Traceback" not in answer.text


async def test_a_client_whose_episode_was_ended_is_told():
    async with over_http() as server:
        created = await server.create(EpisodeRequest(**WANTED))
        async with Client(created.url) as client:
            await client.call_tool("get_task", {})
            await server.end(created.id)
            with pytest.raises(MCPError, match="no live episode"):
                await client.call_tool("get_task", {})


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, 201),
    ],
)
async def test_requests_by_other_names_are_refused(header, status):
    async with over_http() as server, await trainer(server) as control:
        assert (await control.post("/episodes", json=WANTED, headers=header)).status_code == status


async def test_too_many_calls_of_one_episode_are_slowed_down_and_others_are_not():
    async with over_http(calls_per_second=0.001, burst=3) as server, httpx2.AsyncClient() as raw:
        slow, other = [await server.create(EpisodeRequest(**WANTED)) for _ in range(2)]
        codes = [(await raw.post(slow.url, content=b"{")).status_code for _ in range(5)]
        assert codes[3:] == [429, 429]
        assert (await raw.post(other.url, content=b"{")).status_code not in (429, 200)


async def test_guesses_of_tokens_and_ids_are_slowed_down_and_the_trainer_is_not():
    async with over_http(failures_per_minute=4) as server, await trainer(server) as control:
        guesses = [await control.get("/episodes/x", headers={"Authorization": "Bearer guess"}) for _ in range(6)]
        assert [guess.status_code for guess in guesses] == [401] * 4 + [429] * 2
        assert (await control.post(f"/episodes/{'x' * 32}/mcp")).status_code == 429
        assert (await control.post("/episodes", json=WANTED)).status_code == 201


async def test_an_idle_episode_is_reaped_with_its_process_and_one_at_work_is_not():
    async with over_http(VAULT, sandbox=open_sandbox(PATIENT)) as server:
        idle, busy = [await server.create(EpisodeRequest(**WANTED)) for _ in range(2)]
        process = pid_of(server, idle)
        async with Client(busy.url) as client:
            working = asyncio.create_task(client.call_tool("work", {"rounds": 2_000_000}))
            await acting(server.table.get(busy.id).episode)
            assert await server.table.reap(time.monotonic() + LATER) == 1
            assert not is_alive(process)
            assert server.table.get(idle.id) is None
            assert not (await working).is_error
        assert await server.table.reap(time.monotonic()) == 0
        assert await server.table.reap(time.monotonic() + LATER) == 1
        assert len(server.table) == 0


async def test_a_limit_of_its_own_makes_an_episode_idle_sooner():
    async with over_http() as server, await trainer(server) as control:
        await control.post("/episodes", json={**WANTED, "limits": {"idle_seconds": 10}})
        await control.post("/episodes", json=WANTED)
        assert await server.table.reap(time.monotonic() + 20) == 1


async def test_an_open_stream_of_an_older_client_does_not_keep_an_episode_alive():
    async with over_http() as server:
        created = await server.create(EpisodeRequest(**WANTED))
        async with Client(created.url, mode="legacy") as client:
            await client.call_tool("get_task", {})
            assert await server.table.reap(time.monotonic() + LATER) == 1
            with pytest.raises(MCPError):
                await client.call_tool("get_task", {})


@pytest.mark.parametrize(
    "sent", [b"", b"POST /episodes HTTP/1.1\r\nHost: ", b"POST /episodes HTTP/1.1\r\nHost: localhost\r\n"
             b"Authorization: Bearer the token\r\nContent-Length: 100\r\n\r\n{"],
)  # fmt: skip
async def test_a_half_open_connection_is_closed(sent):
    async with over_http() as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        await writer.drain()
        async with Client((await server.create(EpisodeRequest(**WANTED))).url) as client:
            await client.call_tool("get_task", {})
            now = time.monotonic()
            assert close_overdue(server._connections, 60.0, now) == 0
            assert close_overdue(server._connections, 60.0, now + 61) >= 1
        with pytest.raises(ConnectionError):
            if await reader.read() == b"":
                raise ConnectionResetError
        writer.close()


async def test_a_request_that_breaks_off_before_and_after_its_episodes_end_leaves_no_trace_in_the_log(caplog):
    async with over_http() as server:
        host, port = server.url.removeprefix("http://").split(":")
        for ends in (False, True):
            created = await server.create(EpisodeRequest(**WANTED))
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"POST /episodes/{created.id}/mcp HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n".encode())
            writer.write(b"Accept: application/json\r\n\r\n{")
            async with Client(created.url) as client:
                await client.call_tool("get_task", {})
            if ends:
                await server.end(created.id)
            assert close_overdue(server._connections, 0.0, time.monotonic() + 1) >= 1
            with pytest.raises(ConnectionError):
                if await reader.read() == b"":
                    raise ConnectionResetError
            writer.close()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_leaving_the_server_kills_every_child_in_mid_call_too():
    async with open_sandbox(PATIENT) as sandbox:
        async with over_http(VAULT, sandbox=kept(sandbox)) as server:
            made = [await server.create(EpisodeRequest(**WANTED)) for _ in range(3)]
            processes = [pid_of(server, created) for created in made]
            async with Client(made[0].url) as client:
                working = asyncio.create_task(client.call_tool("work", {"rounds": 4_000_000}))
                await acting(server.table.get(made[0].id).episode)
                assert all(map(is_alive, processes))
                await server.table.aclose()
                text, over, is_error = said(await working)
                assert (over, is_error) == (True, True)
                assert "over" in text
            with pytest.raises(FullError, match="shutting down"):
                await server.create(EpisodeRequest(**WANTED))
        assert not any(map(is_alive, processes))


class kept:
    """A sandbox that stays open when a server is left."""

    def __init__(self, sandbox):
        self.sandbox = sandbox

    async def __aenter__(self):
        return self.sandbox

    async def __aexit__(self, *error):
        pass


def pid_of(server, created):
    return server.table.get(created.id).episode._env._backend._process.pid


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_answers_are_sent_without_waiting_for_more_to_send():
    async with over_http() as server, await trainer(server) as control:
        await control.post("/episodes", json=WANTED)
        (connection,) = server._connections
        opened = connection.transport.get_extra_info("socket")
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_a_session_of_one_episode_is_none_of_another():
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    kinds = {"accept": "application/json, text/event-stream"}
    async with over_http() as server, httpx2.AsyncClient(headers=kinds) as raw:
        mine, other = [await server.create(EpisodeRequest(**WANTED)) for _ in range(2)]
        begun = await raw.post(mine.url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        assert (await raw.post(other.url, json=asked, headers=session)).status_code == 404
        assert (await raw.post(mine.url, json=asked, headers=session)).status_code == 200


async def test_the_end_of_an_episode_ends_the_stream_that_a_client_holds_open():
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    kinds = {"accept": "application/json, text/event-stream"}
    async with over_http() as server, httpx2.AsyncClient(headers=kinds, timeout=60) as raw:
        created = await server.create(EpisodeRequest(**WANTED))
        begun = await raw.post(created.url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        async with raw.stream("GET", created.url, headers=session) as stream:
            assert stream.status_code == 200
            assert await server.table.reap(time.monotonic() + LATER) == 1
            assert "".join([text async for text in stream.aiter_text()]) == ""
