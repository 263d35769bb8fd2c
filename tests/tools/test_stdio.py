"""A server over standard input and output, written to by hand."""

from __future__ import annotations

import asyncio
import json
import sys

from spade_environments.registry import find

SPADE = ["-c", "from spade_agents.cli import main; main()", "serve", "ticket_desk", "--seed", "1"]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def call(number, name, arguments):
    params = {"name": name, "arguments": arguments, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


async def test_bad_lines_are_answered_or_passed_over_and_the_episode_goes_on():
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SPADE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, limit=2**22,
    )  # fmt: skip
    lines = [
        call(1, "get_task", {}),
        "{", "", "[]", "3", '"\ufffd"', '{"jsonrpc": "2.0"}', "[" * 50_000,
        call(2, "snooze_ticket", {"ticket": "K1", "days": float("nan")}),
        call(3, "tickets_of", {"customer": "x" * 2**20}),
        call(4, "tickets_of", json.dumps({"customer": "x"})),
        json.dumps({"jsonrpc": "2.0", "id": 5, "method": "nothing/here", "params": {"_meta": META}}),
        call(6, "get_task", {}),
    ]  # fmt: skip
    process.stdin.write("\n".join([*lines, ""]).encode())
    await process.stdin.drain()
    answers = {}
    while not {1, 3, 4, 5, 6} <= answers.keys():
        message = json.loads(await process.stdout.readline())
        answers[message.get("id")] = message
    process.stdin.close()
    told = (await process.stderr.read()).decode()
    assert await process.wait() == 0
    task = answers[1]["result"]["structuredContent"]
    assert answers[6]["result"]["structuredContent"] == task
    assert not task["over"]
    assert answers[3]["result"]["structuredContent"]["error"] == "too_long"
    assert answers[4]["error"]["code"] < 0
    assert answers[5]["error"]["code"] == -32601
    assert find("ticket_desk").hint not in json.dumps(answers) + told
