"""Clients who take their time: a request must come whole, and its answer be read, within the limit."""

from __future__ import annotations

import asyncio
import socket
import time

import httpx2
import pytest
from mcp import Client

from spade_tools import EpisodeRequest
from spade_tools.sockets import close_overdue
from tests.tools.served import over_http

LIMIT = 60.0
HEAD = b"POST /episodes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer the token\r\n"
WANTED = b'{"environment": "vault", "seed": 3}'


def address(server):
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


async def is_heard(server):
    """Return once the server has read all that was sent to it before."""
    async with httpx2.AsyncClient(base_url=server.url) as other:
        assert (await other.get("/episodes")).status_code == 401


async def is_cut_off(reader):
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


PARTS = {
    "its head": (b"POST /episodes HT", b"T"),
    "its headers": (HEAD + b"X-Slow: a", b"a"),
    "its body": (HEAD + b"Content-Length: 100\r\n\r\n{", b" "),
    "nothing at first": (b"", b"P"),
}


@pytest.mark.parametrize("part", PARTS)
async def test_a_client_that_trickles_its_request_is_cut_off(part):
    first, more = PARTS[part]
    async with over_http() as server:
        reader, writer = await asyncio.open_connection(*address(server))
        writer.write(first)
        await is_heard(server)
        between = time.monotonic()
        writer.write(more)
        await is_heard(server)
        assert close_overdue(server._connections, LIMIT, between) == 0
        assert close_overdue(server._connections, LIMIT, between + LIMIT) == 1  # what came since buys no time
        assert await is_cut_off(reader)
        writer.close()


@pytest.mark.parametrize("part", [b"P", HEAD, HEAD + b"Content-Length: 100\r\n\r\n{"])
async def test_a_later_request_on_a_kept_connection_is_timed_as_the_first_one_is(part):
    async with over_http() as server:
        reader, writer = await asyncio.open_connection(*address(server))
        for _ in range(2):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(WANTED) + WANTED)
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 201")
        writer.write(part)
        await is_heard(server)
        between = time.monotonic()
        writer.write(b"x")
        await is_heard(server)
        assert close_overdue(server._connections, LIMIT, between) == 0
        assert close_overdue(server._connections, LIMIT, between + LIMIT) == 1
        assert await is_cut_off(reader)
        writer.close()


async def test_a_slow_request_that_comes_whole_in_time_is_answered_and_its_connection_kept():
    async with over_http() as server:
        reader, writer = await asyncio.open_connection(*address(server))
        for _ in range(2):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(WANTED) + WANTED[:5])
            await is_heard(server)
            writer.write(WANTED[5:])
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 201")
            assert close_overdue(server._connections, LIMIT, time.monotonic() + LIMIT + 1) == 0
        writer.close()


async def test_a_request_that_came_in_part_behind_another_one_is_timed_too():
    async with over_http() as server:
        reader, writer = await asyncio.open_connection(*address(server))
        whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(WANTED) + WANTED
        writer.write(whole + HEAD + b"Content-Length: 100\r\n\r\n{")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 201")
        await is_heard(server)
        assert close_overdue(server._connections, LIMIT, time.monotonic() + LIMIT + 1) == 1
        assert await is_cut_off(reader)
        writer.close()


async def test_a_client_that_does_not_read_its_answers_is_cut_off():
    """Its reports do not fit the two sockets' buffers; one that reads them a little late is let be."""
    async with over_http() as server:
        created = await server.create(EpisodeRequest(environment="vault", seed=3))
        async with Client(created.url) as client:
            for _ in range(5):
                await client.call_tool("echo", {"text": "x" * 30_000})
        asked = f"GET /episodes/{created.id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer the token\r\n\r\n"
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address(server))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
        reader._transport.pause_reading()
        writer.write(asked.encode() * 40)
        while not any(connection.transport.get_write_buffer_size() for connection in server._connections):
            await is_heard(server)
        now = time.monotonic()
        assert close_overdue(server._connections, LIMIT, now) == 0
        assert close_overdue(server._connections, LIMIT, now + LIMIT + 1) == 1
        writer.transport.abort()


async def test_nonsense_is_refused_and_leaves_no_line_in_the_log(caplog):
    async with over_http() as server:
        for sent in (b"\x16\x03\x01\x02", b"GET / HTTP/9\r\n\r\n", b"x" * 70_000, HEAD + b"Upgrade: websocket\r\n"
                     b"Connection: upgrade\r\n\r\n"):  # fmt: skip
            reader, writer = await asyncio.open_connection(*address(server))
            writer.write(sent + b"\r\n\r\n")
            writer.write_eof()
            assert (await reader.read(12)).startswith(b"HTTP/1.1 40")
            writer.close()
    assert [record.getMessage() for record in caplog.records] == []


async def test_whoever_holds_on_to_many_connections_keeps_nobody_out():
    async with over_http(connections=4) as server:
        held = [await asyncio.open_connection(*address(server)) for _ in range(12)]
        created = await server.create(EpisodeRequest(environment="vault", seed=3))
        async with Client(created.url) as client:
            for times in range(1, 5):
                await client.call_tool("pull", {"times": times})
                held.append(await asyncio.open_connection(*address(server)))
            assert server.connections <= 4
        assert server.report(created.id).turns == 4
        assert await is_cut_off(held[0][0])
        for _, writer in held:
            writer.transport.abort()
