"""A trainer elsewhere, who holds the token and nothing else of the server."""

from __future__ import annotations

import asyncio

import pytest

from spade_environments import EnvironmentFault, EnvironmentSpec, FaultKind, HostFault, Reply, Skill, ToolCall
from spade_environments.sandbox import open_sandbox
from spade_tools import EpisodeLimits, EpisodeRequest, RemoteEpisodes, RequestError, open_control
from spade_tools.table import FullError, UnknownEnvironmentError
from tests.tools.served import FIRST, PULLS, VAULT, inline, over_http

WANTED = EpisodeRequest(environment="vault", seed=3)


def call(name, **arguments):
    return ToolCall(name=name, arguments=arguments, id="c")


WINS = (call("pull", times="6"), call("pull", times=PULLS), Reply(text=""), call("open_door"), Reply(text=""),
        Reply(text=str(PULLS)), call("pull", times=1))  # fmt: skip


async def results(env):
    first = await env.reset(3)
    found = [env.tools, env.max_turns, first, *[await env.step(action) for action in WINS]]
    await env.aclose()
    return found


async def test_plays_on_a_server_elsewhere_are_the_same_as_in_process():
    async with inline() as sandbox, over_http() as server, open_control(server.url + "/", "the token") as control:
        direct = await results(await sandbox.open(VAULT))
        remote = await results(await RemoteEpisodes(control, sandbox).open(VAULT))
        assert remote == direct
        assert direct[-2].reward == 1.0
        assert len(server.table) == 0


async def test_a_report_tells_the_whole_transcript_or_its_end():
    async with over_http() as server, open_control(server.url, "the token") as control:
        created = await control.create(WANTED)
        assert await control.report(created.id) == server.report(created.id)
        episode = server.table.get(created.id).episode
        await episode.start()
        for times in (1, 2, 3):
            await episode.act(call("pull", times=times))
        whole = await control.report(created.id)
        assert (whole, whole.opening) == (server.report(created.id), FIRST)
        for last in (0, 1, 3, 99):
            part = await control.report(created.id, last=last)
            assert (part.transcript, part.turns) == (whole.transcript[3 - min(3, last) :], 3)
        assert (await control.end(created.id)).turns == 3
        assert (await control.report(created.id), await control.end(created.id)) == (None, None)


async def test_a_last_that_is_no_number_is_refused_and_ends_nothing():
    async with over_http() as server, open_control(server.url, "the token") as control:
        created = await control.create(WANTED)
        for last in (-1, "x", 10**9, "1 or so"):
            with pytest.raises(RequestError, match="wanted a number of exchanges"):
                await control._told_of("DELETE", created.id, last)
        assert await control.report(created.id) is not None


async def test_the_episodes_url_begins_with_the_address_that_the_trainer_knows():
    async with over_http() as server:
        known = server.url.replace("127.0.0.1", "localhost")
        async with open_control(known, "the token") as control:
            created = await control.create(WANTED)
            assert created.url == f"{known}/episodes/{created.id}/mcp"


REFUSED = {
    "an unknown environment": (EpisodeRequest(environment="volt"), UnknownEnvironmentError, "no environment is named"),
    "no turns": (EpisodeRequest(environment="vault", limits=EpisodeLimits(turns=0)), RequestError, "limits.turns is 0"),
    "a hint for an agent": (EpisodeRequest(environment="vault", hint=True), RequestError, "mode play only"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_request_that_cannot_be_is_refused_in_the_servers_words(case):
    request, kind, told = REFUSED[case]
    async with over_http() as server, open_control(server.url, "the token") as control:
        with pytest.raises(kind, match=told):
            await control.create(request)


async def test_a_wrong_token_a_full_server_and_a_broken_environment_are_told_apart():
    broken = EnvironmentSpec(name="broken", source="import nothing_of_the_kind", skill=Skill.DATA_RETRIEVAL)
    async with over_http(VAULT, broken, max_episodes=1) as server:
        async with open_control(server.url, "another token") as control:
            for asked in (control.create(WANTED), control.report("x" * 32), control.end("x" * 32)):
                with pytest.raises(RequestError, match="wanted the header Authorization"):
                    await asked
        async with open_control(server.url, "the token") as control, open_sandbox() as sandbox:
            with pytest.raises(EnvironmentFault, match="nothing_of_the_kind") as caught:
                await control.create(EpisodeRequest(environment="broken"))
            assert (caught.value.kind, caught.value.phase) == (FaultKind.REJECT, "load")
            await control.create(WANTED)
            with pytest.raises(FullError, match="takes no more episodes"):
                await control.create(WANTED)
            env = await RemoteEpisodes(control, sandbox).open(VAULT)
            with pytest.raises(HostFault, match="takes no more episodes"):
                await env.reset(3)


async def answering(text):
    """A server that answers everything with `text`; its address."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("text", [b"", b"<html>", b"[]", b'{"id": 3}', b"\xff", b"[" * 100_000])
async def test_an_answer_that_is_none_is_an_infrastructure_fault(text):
    server, url = await answering(text)
    async with server, open_control(url, "the token") as control:
        with pytest.raises(HostFault) as caught:
            await control.create(WANTED)
        assert caught.value.kind is FaultKind.PROTOCOL


async def test_a_server_that_is_gone_or_silent_is_an_infrastructure_fault():
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with silent, open_control(url, "the token", seconds=0.05) as control:
        with pytest.raises(HostFault) as caught:
            await control.report("x")
        assert caught.value.kind is FaultKind.TIMEOUT_WALL
    async with open_control(url, "the token") as control:
        with pytest.raises(HostFault, match="cannot be reached") as caught:
            await control.create(WANTED)
        assert caught.value.kind is FaultKind.HOST_FAULT
