"""McpToolset: tools of any MCP server, and every way in which a server can fail."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from spade_environments import FaultKind, HostFault, ToolCall
from spade_tools import McpCommand, McpToolset, McpUrl, open_toolset
from tests.tools.foreign_servers import NOTHING, TEXT, Shelf, brittle


def call(name, **arguments):
    return ToolCall(name=name, arguments=arguments)


async def test_tools_of_a_server_in_memory_are_listed_and_called():
    shelf = Shelf()
    async with open_toolset(shelf.server) as toolset:
        assert (toolset.tools[0].name, toolset.tools[0].parameters) == ("add_note", TEXT)
        await toolset.call(call("add_note", text="hello"))
        answer = await toolset.call(call("read_notes"))
    assert (answer.text, answer.is_error, shelf.notes) == ("hello", False, ["hello"])


async def test_what_the_server_refuses_is_an_answer_and_the_connection_stays():
    async with open_toolset(Shelf().server) as toolset:
        assert (await toolset.call(call("nothing_of_the_kind"))).is_error
        broken = await toolset.call(call("read_notes", why=1))  # its handler raises: JSON-RPC's internal error
        assert broken.is_error
        assert "secret" not in broken.text
        assert not (await toolset.call(call("add_note", text="still here"))).is_error


async def test_tools_over_stdio_are_called_and_their_text_is_cleaned():
    async with open_toolset(brittle()) as toolset:
        assert (await toolset.call(call("fine"))).text == "fine"


@pytest.mark.parametrize(
    ("tool", "kind"),
    [("die", FaultKind.HOST_FAULT), ("hang", FaultKind.TIMEOUT_WALL), ("babble", FaultKind.PROTOCOL)],
)
async def test_a_server_that_fails_in_a_call_raises_and_stays_failed(tool, kind):
    async with open_toolset(brittle(), seconds=5.0 if tool != "hang" else 0.7) as toolset:
        with pytest.raises(HostFault) as caught:
            await toolset.call(call(tool))
        assert caught.value.kind is kind
        started = time.monotonic()
        with pytest.raises(HostFault):
            await toolset.call(call("fine"))
        assert time.monotonic() - started < 0.5


async def test_what_a_dead_server_wrote_last_is_told_without_control_characters():
    async with open_toolset(brittle()) as toolset:
        with pytest.raises(HostFault, match=r"it wrote: out of \[31mcheese") as caught:
            await toolset.call(call("die"))
    assert "\x1b" not in caught.value.detail


@pytest.mark.parametrize(
    "target",
    [
        McpCommand(command="no-such-program-here"),
        McpCommand(command=sys.executable, arguments=("-c", "raise SystemExit(3)")),
        McpCommand(command="cat"),
        McpUrl(url="http://127.0.0.1:9/mcp"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_a_fault_at_once(target):
    with pytest.raises(HostFault):
        async with open_toolset(target, seconds=20.0):
            pass


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "a tool", "inputSchema": NOTHING},
        {"name": "a", "inputSchema": {"type": "object", "properties": {"x": {"type": "nonsense"}}}},
        {"name": "a", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "https://example.org/x"}}}},
    ],
)
async def test_a_tool_that_cannot_be_offered_on_is_refused(tool):
    with pytest.raises(HostFault) as caught:
        async with open_toolset(brittle([tool])):
            pass
    assert caught.value.kind is FaultKind.PROTOCOL


async def test_two_tools_of_one_name_are_refused():
    with pytest.raises(HostFault, match="one name"):
        async with open_toolset(brittle([{"name": "a", "inputSchema": NOTHING}] * 2)):
            pass


async def test_headers_such_as_a_bearer_token_go_with_each_request():
    heard = []

    async def answer(reader, writer):
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        target = McpUrl(url=f"http://{host}:{port}/mcp", headers={"Authorization": "Bearer abc"})
        with pytest.raises(HostFault):
            await McpToolset.open(target)
    assert heard
    assert all("authorization: bearer abc" in request for request in heard)


async def test_a_connection_can_be_closed_by_another_task_than_opened_it():
    toolset = await asyncio.create_task(McpToolset.open(brittle()))
    assert (await asyncio.create_task(toolset.call(call("fine")))).text == "fine"
    await asyncio.create_task(toolset.aclose())
    with pytest.raises(HostFault):
        await toolset.call(call("fine"))
