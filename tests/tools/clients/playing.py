"""What the checks of third-party clients share: an instance, its gold calls, and a server to reach."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from spade_environments import ToolCall
from spade_environments.registry import catalogue, find
from spade_environments.sandbox import open_sandbox
from spade_tools import EpisodeRequest, serve_http

NAME, SEED = "release_board", 3  # an instance in which a goal unlocks a tool
SPADE = Path(sys.executable).parent / "spade"
STDIO = {"command": str(SPADE), "args": ["serve", NAME, "--seed", str(SEED)]}
HERE = Path(__file__).parent


async def gold_calls(sandbox, spec, seed):
    """The gold actions as calls of tools, a Reply as one of finish_turn."""
    async with await sandbox.open(spec) as env:
        await env.reset(seed)
        actions = await env.solution()
    return [
        {"name": action.name, "arguments": dict(action.arguments)}
        if isinstance(action, ToolCall)
        else {"name": "finish_turn", "arguments": {"message": action.text}}
        for action in actions
    ]


@asynccontextmanager
async def served():
    """A server of the catalogue, and its sandbox."""
    async with open_sandbox() as sandbox, serve_http(catalogue(), sandbox) as server:
        yield server, sandbox


async def run(*command):
    """Exit code, standard output and standard error of a client's process."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(300.0):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return process.returncode, out.decode(), err.decode()


async def play_over_stdio(*client):
    """What a client tells of the gold calls that it made to `spade serve`."""
    async with open_sandbox() as sandbox:
        calls = await gold_calls(sandbox, find(NAME), SEED)
    return told(await run(*client, json.dumps(STDIO), json.dumps(calls))), calls


async def play_over_http(*client):
    """The same over an episode's URL, and what the control plane tells the trainer."""
    async with served() as (server, sandbox):
        calls = await gold_calls(sandbox, find(NAME), SEED)
        created = await server.create(EpisodeRequest(environment=NAME, seed=SEED))
        found = told(await run(*client, json.dumps({"url": created.url}), json.dumps(calls)))
        return found, calls, server.report(created.id)


def told(finished):
    """The last line that a client printed."""
    code, out, err = finished
    assert code == 0, err[-3000:]
    return json.loads(out.strip().splitlines()[-1])


def assert_played_to_the_end(found, calls):
    """Every call was answered, none by an error; the last one ended the episode, and a tool came on the way."""
    results = found["results"]
    assert len(results) == len(calls) + 1
    assert [result["observation"] for result in results if result["error"]] == []
    assert [result["over"] for result in results] == [False] * len(calls) + [True]
    assert "cut_release" not in found["tools"]
    assert "cut_release" in found["tools_after"]
