"""What a tool call costs over MCP: a served environment, sandbox on, against a bare SDK server that answers the same.

Run `python benchmarks/mcp_latency.py [--quick]`. The bare server has the same tools, schemas and payload, and validates
nothing. The sides take turns in one run, in changing order, so that they share the machine's load; compare figures of
one run only. The ratio is that of the medians over all calls; beside it stands the range of the rounds' own ratios.
Over stdio each episode is a process of its own; over HTTP all episodes share one server process.

In memory, with one episode, a third side tells what is not the sandbox's doing: a bare server that does nothing but ask
a plain process, which sends back what it is sent. No environment in a process of its own can be quicker than that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from spade_environments import EnvironmentSpec, Skill
from spade_environments.sandbox import Limits, LocalSandboxSettings, open_sandbox
from spade_tools import (
    EpisodeLimits,
    EpisodeRequest,
    EpisodeServer,
    HttpSettings,
    open_episode,
    serve_http,
    serve_stdio,
)

SOURCE = '''
from spade_environments import Goal, ToolEnv, tool


class Shelf(ToolEnv):
    """Look things up on a shelf."""

    def setup(self):
        self.state = {"shelf": [f"thing {n}" for n in range(20)]}

    @tool
    def look_up(self, place: int, label: str) -> str:
        """Read what stands at a place of the shelf."""
        return f"{label}: at place {place} stands {self.state['shelf'][place % 20]}, as it always has."

    @tool
    def count_things(self) -> int:
        """Count the things on the shelf."""
        return len(self.state["shelf"])

    def goals(self):
        return [Goal("replied", "How many things stand on the shelf?", value=20)]

    def solution(self):
        return [["20"]]
'''
SPEC = EnvironmentSpec(name="shelf", source=SOURCE, skill=Skill.DATA_RETRIEVAL)
ARGUMENTS = {"place": 7, "label": "today"}
TEXT = "today: at place 7 stands thing 7, as it always has."
WITHOUT_END = EpisodeLimits(turns=10_000)
PATIENT = LocalSandboxSettings(limits=Limits(wall_floor=120.0, episode_wall=3600.0, episode_cpu=600.0))
IN_MEMORY, STDIO, HTTP = "memory", "stdio", "http"
BARE, OURS, PROCESS = "bare", "ours", "process"
ECHO = "import os\nwhile data := os.read(0, 4096):\n    os.write(1, data)"
ALLOWED = {IN_MEMORY: 1.5, STDIO: 1.15, HTTP: 1.15}
"""The ratio that each transport is held to."""


def bare_server(tools: Sequence[Tool], first: Callable[[], Any] = lambda: None) -> Server[Any]:
    """What the SDK's documentation shows, with the given tools; each call does `first` first."""

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=list(tools))

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        first()
        return CallToolResult(
            content=[TextContent(type="text", text=TEXT)],
            structured_content={"observation": TEXT, "over": False},
        )

    schemas = {tool.name: tool.input_schema for tool in tools}
    return Server("shelf", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=schemas.get)


@contextmanager
def plain_process() -> Iterator[Callable[[], bytes]]:
    """A process without walls or work; a call sends it a step's bytes and waits until it has sent them back."""
    with subprocess.Popen(
        [sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as run:
        assert run.stdin is not None and run.stdout is not None
        asked, told = run.stdin, run.stdout

        def ask() -> bytes:
            asked.write(b"x" * 200)
            return told.read(4096)

        yield ask
        asked.close()


async def episode_tools() -> list[Tool]:
    """The tools of the served environment, as a client sees them."""
    async with open_sandbox(PATIENT) as sandbox:
        episode = await open_episode(sandbox, SPEC, EpisodeRequest(environment="shelf"))
        async with Client(EpisodeServer(episode).server) as client:
            tools = (await client.list_tools()).tools
        await episode.aclose()
    return tools


@asynccontextmanager
async def clients_in_memory(side: str, count: int) -> AsyncIterator[list[Client]]:
    async with AsyncExitStack() as stack:
        if side == BARE:
            tools = await episode_tools()
            servers = [bare_server(tools) for _ in range(count)]
        elif side == PROCESS:
            servers = [bare_server(await episode_tools(), stack.enter_context(plain_process()))]
        else:
            sandbox = await stack.enter_async_context(open_sandbox(PATIENT))
            request = EpisodeRequest(environment="shelf", limits=WITHOUT_END)
            episodes = [await open_episode(sandbox, SPEC, request) for _ in range(count)]
            servers = [EpisodeServer(episode).server for episode in episodes]
        yield [await stack.enter_async_context(Client(server)) for server in servers]


@asynccontextmanager
async def clients_over_stdio(side: str, count: int) -> AsyncIterator[list[Client]]:
    parameters = StdioServerParameters(command=sys.executable, args=[__file__, "--serve", side, "--over", STDIO])
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            clients.append(await stack.enter_async_context(Client(stdio_client(parameters))))
        yield clients


@asynccontextmanager
async def clients_over_http(side: str, count: int) -> AsyncIterator[list[Client]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", side, "--over", HTTP, "--episodes", str(count),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**20,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    urls = json.loads(await process.stdout.readline())
    try:
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(Client(url)) for url in urls]
    finally:
        process.stdin.close()
        await process.wait()


CLIENTS = {IN_MEMORY: clients_in_memory, STDIO: clients_over_stdio, HTTP: clients_over_http}


async def serve(side: str, transport: str, episodes: int) -> None:
    """The server's side, in a process of its own."""
    if side == BARE:
        server = bare_server(await episode_tools())
        if transport == STDIO:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        else:
            await serve_bare_http(server, episodes)
        return
    async with open_sandbox(PATIENT) as sandbox:
        request = EpisodeRequest(environment="shelf", limits=WITHOUT_END)
        if transport == STDIO:
            await serve_stdio(await open_episode(sandbox, SPEC, request))
            return
        settings = HttpSettings(calls_per_second=1e6, burst=10**6)
        async with serve_http([SPEC], sandbox, settings=settings) as served:
            print(json.dumps([(await served.create(request)).url for _ in range(episodes)]), flush=True)
            await asyncio.to_thread(sys.stdin.read)


async def serve_bare_http(server: Server[Any], episodes: int) -> None:
    app = server.streamable_http_app(json_response=True)
    config = uvicorn.Config(
        app, port=0, access_log=False, log_config=None, http="h11", ws="none", timeout_keep_alive=75
    )  # a side waits longer than the usual five seconds while the other one is measured
    runner = uvicorn.Server(config)
    running = asyncio.create_task(runner.serve())
    while not runner.started:  # noqa: ASYNC110 (uvicorn has no event for it)
        await asyncio.sleep(0.01)
    port = runner.servers[0].sockets[0].getsockname()[1]
    print(json.dumps([f"http://127.0.0.1:{port}/mcp"] * episodes), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    runner.should_exit = True
    await running


async def call(clients: Sequence[Client], calls: int) -> list[float]:
    """Milliseconds of each call, every client calling one after another."""

    async def worker(client: Client) -> list[float]:
        found = []
        for _ in range(calls):
            start = time.perf_counter()
            result = await client.call_tool("look_up", ARGUMENTS)
            found.append((time.perf_counter() - start) * 1e3)
            assert result.structured_content == {"observation": TEXT, "over": False}, result
        return found

    return [milliseconds for part in await asyncio.gather(*map(worker, clients)) for milliseconds in part]


async def compare(transport: str, episodes: int, calls: int, rounds: int) -> dict[str, float]:
    """The sides in turn, `rounds` times; p50, p99 and ratios to the bare one."""
    names = [BARE, OURS, *([PROCESS] if (transport, episodes) == (IN_MEMORY, 1) else [])]
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    async with AsyncExitStack() as stack:
        sides = {name: await stack.enter_async_context(CLIENTS[transport](name, episodes)) for name in names}
        for clients in sides.values():
            await call(clients, max(1, calls // 10))
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                times[name].append(await call(sides[name], calls))
    found: dict[str, float] = {}
    for name, each in times.items():
        together = [milliseconds for part in each for milliseconds in part]
        found[f"{name}_ms_p50"] = statistics.median(together)
        found[f"{name}_ms_p99"] = statistics.quantiles(together, n=100)[98]
    ratios = [
        statistics.median(ours) / statistics.median(bare) for ours, bare in zip(times[OURS], times[BARE], strict=True)
    ]
    found |= {
        "ratio_p50": found["ours_ms_p50"] / found["bare_ms_p50"],
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
    }
    if PROCESS in times:
        found["process_ratio_p50"] = found["process_ms_p50"] / found["bare_ms_p50"]
    return found


async def measure(quick: bool, transports: Sequence[str]) -> dict[str, float]:
    total = 400 if quick else 4000
    figures: dict[str, float] = {}
    for transport in transports:
        crowds = [1, 8] if quick else [1, 32]
        if not quick and transport != STDIO:  # 400 processes of a server do not fit a small machine
            crowds.append(400)
        for episodes in crowds:
            rounds = 4 if quick else 10
            found = await compare(transport, episodes, max(2, total // episodes // rounds), rounds)
            figures |= {f"{transport}_{episodes}_{name}": value for name, value in found.items()}
            print_row(transport, episodes, found)
    return figures


def print_row(transport: str, episodes: int, found: dict[str, float]) -> None:
    allowed = f"at most {ALLOWED[transport]}" if episodes < 400 else "reported"
    print(
        f"{transport:8} {episodes:4} episodes  bare {found['bare_ms_p50']:7.3f} ms  ours {found['ours_ms_p50']:7.3f} ms"
        f"  ratio {found['ratio_p50']:.3f} ({allowed}; rounds {found['ratio_low']:.2f} to {found['ratio_high']:.2f})"
        f"  p99 {found['bare_ms_p99']:.2f} and {found['ours_ms_p99']:.2f} ms",
        flush=True,
    )
    if "process_ratio_p50" in found:
        told = f"{found['process_ms_p50']:.3f} ms, ratio {found['process_ratio_p50']:.3f} (reported)"
        print(f"{'':25} bare, asking a plain process that sends back what it is sent: {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls, and 8 instead of 32 and 400 episodes")
    parser.add_argument("--transports", nargs="+", choices=list(CLIENTS), default=list(CLIENTS))
    parser.add_argument("--serve", choices=(BARE, OURS), help=argparse.SUPPRESS)
    parser.add_argument("--over", choices=(STDIO, HTTP), help=argparse.SUPPRESS)
    parser.add_argument("--episodes", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve, options.over, options.episodes))
        return
    print(json.dumps(asyncio.run(measure(options.quick, options.transports))))


if __name__ == "__main__":
    main()
