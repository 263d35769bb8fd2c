"""`spade serve`: what it refuses, and a server over stdio and over HTTP as its users start and stop it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from spade_agents.cli import main
from spade_agents.selfplay.pool import Pool
from spade_environments.registry import find

SPADE = [sys.executable, "-c", "from spade_agents.cli import main; main()", "serve"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ticket_desk", "--hint"], "--hint goes with --mode play only"),
        (["ticket_desk", "--hint", "--mode", "agent", "--transport", "http"], "--hint goes with --mode play only"),
        (["ticket_desk", "signal_box"], "over stdio one server is one environment, found 2"),
        (["catalogue"], "over stdio one server is one environment, found 12"),
        (["ticket_desk", "--port", "8000"], "--port goes with --transport http only"),
        (["ticket_desk", "--idle", "60"], "--idle goes with --transport http only"),
        (["run_python", "--seed", "3"], "run_python is no environment; leave out --port, --seed"),
        (["run_python", "--mode", "play", "--hint", "--configuration"], "run_python is no environment; leave out"),
        (["ticket_desk", "--seed", str(10**30), "--configuration"], "wanted a whole number of at most 63 bits"),
        (["ticket_desk", "--seed", str(10**30)], "wanted a whole number of at most 63 bits"),
        (["ticket_desk", "--transport", "http", "--seed", str(10**30)], "wanted a whole number of at most 63 bits"),
        (["ticket_desk", "--transport", "http", "--idle", "nan"], "Invalid value for '--idle'"),
        (["tickets_desk"], "did you mean ticket_desk?"),
        (["nowhere/there.py"], "there is no file nowhere/there.py"),
    ],
)
def test_what_cannot_be_served_is_told_and_ends_with_two(arguments, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert shown.out == ""


def test_a_port_that_is_taken_is_told_and_ends_with_two(capsys):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SystemExit) as ended:
            main(["serve", "ticket_desk", "--transport", "http", "--port", str(taken.getsockname()[1])])
    assert ended.value.code == 2
    assert "cannot be listened on" in capsys.readouterr().err


async def test_over_stdio_a_client_plays_and_no_process_is_left_when_it_hangs_up():
    parameters = StdioServerParameters(command=SPADE[0], args=[*SPADE[1:], "word_machine", "--seed", "1"])
    async with Client(stdio_client(parameters)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["answer", "get_task"]
        result = await client.call_tool("answer", {"answer": "no"})
        assert result.structured_content["over"]
        assert "score" not in result.model_dump_json()


async def test_over_http_the_url_of_a_ready_episode_is_printed_and_a_signal_ends_it_all(tmp_path: Path):
    pool = Pool(tmp_path / "run" / "environments")
    pool.add(find("word_machine"), None)
    pool.index([find("word_machine").id])
    target = f"{tmp_path}/run/{find('word_machine').id[:10]}"
    process = started(target, "ticket_desk", "--transport", "http", "--mode", "play", "--seed", "1")
    url = process.stdout.readline().strip()
    async with Client(url) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["answer", "get_task", "reset"]
        await client.call_tool("reset", {"seed": 1})
        assert "score" in (await client.call_tool("answer", {"answer": "no"})).structured_content
    base, _, _ = url.rpartition("/episodes/")
    async with httpx2.AsyncClient(base_url=base, headers={"Authorization": "Bearer known"}) as control:
        made = await control.post("/episodes", json={"environment": "ticket_desk"})
        assert made.status_code == 201
    children = descendants(process.pid)
    assert len(children) >= 4
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "known" not in err
    assert not any(map(is_there, children))


def test_ctrl_c_ends_a_server_over_stdio():
    process = started("word_machine")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "word_machine"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    process.communicate()


@pytest.mark.parametrize("token", [" padded ", "line\nbreak", "ключ"])
def test_a_token_that_no_header_carries_is_refused_before_anything_starts(token):
    served = subprocess.run(
        [*SPADE, "word_machine", "--transport", "http"],
        capture_output=True, text=True, env=os.environ | {"SPADE_TOKEN": token}, timeout=60, check=False,
    )  # fmt: skip
    assert served.returncode == 2 and "SPADE_TOKEN" in served.stderr
    assert served.stdout == ""


def started(*arguments: str) -> subprocess.Popen[str]:
    """The program in a process of its own, with a token that is known."""
    return subprocess.Popen(
        [*SPADE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"SPADE_TOKEN": "known"},
    )  # fmt: skip


def is_there(pid: int) -> bool:
    """Whether the process has not been reaped."""
    return Path(f"/proc/{pid}").exists()


def descendants(pid: int) -> list[int]:
    """The processes under `pid`; the sandbox's supervisor is a session of its own, but a child still."""
    found = []
    for line in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(line), *descendants(int(line))]
    return found
