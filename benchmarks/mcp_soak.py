"""Thousands of episodes over HTTP whose clients behave badly: does the server come back to where it began?

Run `python benchmarks/mcp_soak.py [--quick]`. Of all episodes 92 % are never closed, 10 % are killed in mid-call and
5 % leave a socket with half a request open. After each wave the reaper's time is waited for; then descriptors, threads,
children, connections and the table of episodes must be at their baseline and memory must not grow from wave to wave.
Exits with 1 where one of them does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client

from spade_environments import Reply
from spade_environments.registry import find
from spade_environments.sandbox import Limits, LocalSandboxSettings, open_sandbox
from spade_tools import HttpSettings, serve_http

NAME, SEED = "ticket_desk", 5
TOKEN = "soak"
NEWER, OLDER = "2026-07-28", "2025-11-25"
GROWTH_ALLOWED = 1.0
"""MiB for each 1,000 episodes, once warm."""
FEWEST_WAVES = 5
"""Of the second half, which the slope of memory is taken from; below it a slope says nothing and is not told."""
WAVE_SECONDS = 300.0
UNCHANGED_SECONDS = 2.0
PAGE = 4096


async def serve(idle: float) -> None:
    """The server, in a process of its own; tells its state when asked by a line on standard input."""
    settings = HttpSettings(idle_seconds=idle, request_seconds=idle, max_episodes=1024)
    limits = LocalSandboxSettings(limits=Limits(wall_floor=120.0))
    async with (
        open_sandbox(limits) as sandbox,
        serve_http([find(NAME)], sandbox, settings=settings, token=TOKEN) as server,
    ):
        print(json.dumps({"url": server.url}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            gc.collect()
            print(json.dumps({"table": len(server.table), "connections": server.connections}), flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the server holds."""

    table: int
    connections: int
    descriptors: int
    threads: int
    children: int
    mib: float

    def held(self) -> tuple[int, ...]:
        """All of it but memory."""
        return (self.table, self.connections, self.descriptors, self.threads, self.children)


class Served:
    """The server's process, seen from outside."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process, self.url = process, url
        self.port = int(url.rpartition(":")[2])
        self.left_open: list[asyncio.StreamWriter] = []

    async def state(self) -> State:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"state\n")
        told = json.loads(await self.process.stdout.readline())
        home = Path(f"/proc/{self.process.pid}")
        return State(
            **told,
            descriptors=len(list((home / "fd").iterdir())),
            threads=len(list((home / "task").iterdir())),
            children=len(descendants(self.process.pid)),
            mib=int((home / "statm").read_text().split()[1]) * PAGE / 2**20,
        )

    async def settled(self, baseline: State | None) -> State:
        """The state once nothing is live, and once it holds no more than at the baseline; or as it is in the end.

        Without a baseline, the state once it has not changed for `UNCHANGED_SECONDS`: children that are still being
        ended belong to no baseline.
        """
        deadline = time.monotonic() + WAVE_SECONDS
        held, since = None, time.monotonic()
        while True:
            state = await self.state()
            if state.held() != held:
                held, since = state.held(), time.monotonic()
            unchanged = time.monotonic() - since > UNCHANGED_SECONDS
            calm = state.table == state.connections == 0
            reached = unchanged if baseline is None else state.held() <= baseline.held()
            if (calm and reached) or time.monotonic() > deadline:
                return state
            await asyncio.sleep(0.2)


def descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(deeper for child in children for deeper in descendants(child))]


class ReapedError(Exception):
    """The reaper was there before the next call: this machine is too busy for so short an idle time."""


class Wire:
    """One connection, written by hand so that it can be left in any state."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader, self.writer, self.port = reader, writer, port

    def write(self, path: str, body: dict[str, Any], headers: dict[str, str], *, part: float = 1.0) -> None:
        data = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Content-Type: application/json",
                 "Accept: application/json, text/event-stream", f"Content-Length: {len(data)}",
                 *(f"{name}: {value}" for name, value in headers.items())]  # fmt: skip
        whole = "\r\n".join(lines).encode() + b"\r\n\r\n" + data
        self.writer.write(whole[: int(len(whole) * part)])

    async def answer(self) -> tuple[dict[str, str], Any]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        if " 404 " in head[0]:
            raise ReapedError
        return headers, json.loads(body) if body else None


def called(number: int, name: str, arguments: dict[str, Any], era: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The body and headers of a tool call."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    headers = {"MCP-Protocol-Version": era}
    if era == NEWER:
        meta = {"io.modelcontextprotocol/protocolVersion": NEWER, "io.modelcontextprotocol/clientCapabilities": {}}
        params["_meta"] = meta
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, headers


async def misuse(served: Served, control: httpx2.AsyncClient, number: int, seen: Counter[str]) -> None:
    """One episode, played for two calls and left as its number says."""
    kind = number % 100
    made = (await control.post("/episodes", json={"environment": NAME, "seed": number})).json()
    path = f"/episodes/{made['id']}/mcp"
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    wire, era, session = Wire(reader, writer, served.port), NEWER if number % 2 else OLDER, {}
    if era == OLDER:
        hello = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        wire.write(path, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, {})
        headers, _ = await wire.answer()
        session = {"mcp-session-id": headers["mcp-session-id"]}
        wire.write(path, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        await wire.answer()
    for call_number, (name, arguments) in enumerate((("get_task", {}), ("tickets_about", {"subject": "router"})), 1):
        body, headers = called(call_number, name, arguments, era)
        wire.write(path, body, headers | session)
        _, answer = await wire.answer()
        assert "structuredContent" in answer.get("result", {}), answer
    body, headers = called(3, "tickets_about", {"subject": "printer"}, era)
    if kind < 10:
        wire.write(path, body, headers | session)
        await writer.drain()
        writer.transport.abort()
        seen["killed in mid-call"] += 1
    elif kind < 15:
        wire.write(path, body, headers | session, part=0.3 + 0.6 * (kind % 2))
        served.left_open.append(writer)
        seen["left half-open"] += 1
    else:
        writer.transport.abort()
    if kind >= 92:
        assert (await control.delete(f"/episodes/{made['id']}")).status_code == 200
        seen["closed"] += 1
    else:
        seen["never closed"] += 1


async def wave(served: Served, numbers: range, seen: Counter[str]) -> None:
    waiting = iter(numbers)

    async def worker() -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=120.0) as control:
            for number in waiting:
                try:
                    await misuse(served, control, number, seen)
                except ReapedError:
                    seen["reaped before they were played"] += 1

    await asyncio.gather(*(worker() for _ in range(16)))


async def plays_to_the_end(served: Served) -> bool:
    """Whether a new episode starts and its gold solution wins."""
    async with open_sandbox() as sandbox, await sandbox.open(find(NAME)) as env:
        await env.reset(SEED)
        gold = await env.solution()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=120.0) as control:
        made = (await control.post("/episodes", json={"environment": NAME, "seed": SEED})).json()
        async with Client(made["url"]) as client:
            for action in gold:
                reply = isinstance(action, Reply)
                name = "finish_turn" if reply else action.name
                await client.call_tool(name, {"message": action.text} if reply else dict(action.arguments))
        return bool((await control.delete(f"/episodes/{made['id']}")).json()["reward"] == 1.0)


async def soak(episodes: int, in_wave: int, idle: float) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", "--idle", str(idle), stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    served = Served(process, json.loads(await process.stdout.readline())["url"])
    try:
        await wave(served, range(-in_wave, 0), Counter())  # warm: caches, pools, the allocator's arenas
        baseline, states, seen, start = await served.settled(None), [], Counter[str](), time.perf_counter()
        print(row("baseline", baseline), flush=True)
        for first in range(0, episodes, in_wave):
            await wave(served, range(first, min(episodes, first + in_wave)), seen)
            states.append(await served.settled(baseline))
            print(row(f"{min(episodes, first + in_wave)} episodes", states[-1]), flush=True)
        starts_anew = await plays_to_the_end(served)
    finally:
        for writer in served.left_open:
            writer.transport.abort()
        process.stdin.close()
        await process.wait()
    return judged(baseline, states, in_wave) | {
        "seconds": time.perf_counter() - start, "starts_anew": starts_anew, "episodes": dict(seen),
        "exit_code": process.returncode,
    }  # fmt: skip


def judged(baseline: State, states: list[State], in_wave: int) -> dict[str, Any]:
    """The figures, and whether each thing came back."""
    last = states[-1]
    memory = [state.mib for state in states[len(states) // 2 :]]
    enough = len(memory) >= FEWEST_WAVES
    slope = statistics.linear_regression(range(len(memory)), memory).slope if enough else None
    names = ("table", "connections", "descriptors", "threads", "children")
    return {
        **{f"{name}_left_over": getattr(last, name) - getattr(baseline, name) for name in names},
        "mib_at_baseline": baseline.mib,
        "mib_at_the_end": last.mib,
        "mib_for_each_1000_episodes": None if slope is None else slope * 1000 / in_wave,
    }


def row(label: str, state: State) -> str:
    return (
        f"{label:>16}: table {state.table:4}  connections {state.connections:4}  descriptors {state.descriptors:4}  "
        f"threads {state.threads:3}  children {state.children:4}  memory {state.mib:7.1f} MiB"
    )


def holds(found: dict[str, Any]) -> bool:
    back = all(value <= 0 for name, value in found.items() if name.endswith("_left_over"))
    growth = found["mib_for_each_1000_episodes"]
    return back and found["starts_anew"] and (growth is None or growth <= GROWTH_ALLOWED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="600 episodes instead of 5,000")
    parser.add_argument("--episodes", type=int, help="how many")
    parser.add_argument("--wave", type=int, help="episodes between two waits for the reaper; 250, or a quarter")
    parser.add_argument("--idle", type=float, default=5.0, help="seconds until an unused episode is reaped")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.idle))
        return
    episodes = options.episodes or (600 if options.quick else 5000)
    found = asyncio.run(soak(episodes, options.wave or min(250, max(1, episodes // 4)), options.idle))
    found["holds"] = holds(found)
    print(json.dumps(found))
    sys.exit(0 if found["holds"] else 1)


if __name__ == "__main__":
    main()
