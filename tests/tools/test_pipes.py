"""Standard input and output as a pair of streams: whatever a client starts a server with, and however it ends."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

ECHO = """
import asyncio, os, sys
from spade_tools import pipes

pipes._LINE, pipes._LAST_WORDS = 100_000, 0.1


async def main():
    async with pipes.standard_streams() as (read, write):
        print("printed by a library", flush=True)
        os.write(1, b"written by another\\n")
        print("left to read:", repr(sys.stdin.read()), flush=True)
        async with read:
            async for message in read:
                if not isinstance(message, Exception):
                    await write.send(message)
        await write.aclose()

asyncio.run(main())
if "quiet" not in sys.argv:
    print("after the end")
"""
COMMAND = [sys.executable, "-c", ECHO]


def lines(*messages):
    return b"".join(
        message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n" for message in messages
    )


def note(number, text=""):
    return {"jsonrpc": "2.0", "id": number, "method": "x", "params": {"text": text}}


def check(out, err, *wanted):
    *answers, last = out.decode().rstrip("\n").split("\n")
    assert [json.loads(answer) for answer in answers] == list(wanted)
    assert last == "after the end"
    assert err.decode().splitlines() == ["printed by a library", "written by another", "left to read: ''"]


def test_over_pipes_only_messages_are_on_the_wire_and_the_descriptors_come_back_at_the_end():
    found = subprocess.run(COMMAND, input=lines(note(1, "ü\u2028"), note(2)), capture_output=True, check=True)
    check(found.stdout, found.stderr, note(1, "ü\u2028"), note(2))


def test_over_sockets_as_some_clients_have_them():
    (ours, theirs), (our_end, their_end) = socket.socketpair(), socket.socketpair()
    with ours, our_end:
        process = subprocess.Popen(COMMAND, stdin=theirs, stdout=their_end, stderr=subprocess.PIPE)
        theirs.close()
        their_end.close()
        ours.sendall(lines(note(1), note(2)))
        ours.shutdown(socket.SHUT_WR)
        out = b"".join(iter(lambda: our_end.recv(4096), b""))
        err = process.communicate()[1]
    check(out, err, note(1), note(2))
    assert process.returncode == 0


def test_over_files_as_in_a_script(tmp_path):
    (tmp_path / "in").write_bytes(lines(note(1)))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        found = subprocess.run(COMMAND, stdin=source, stdout=target, stderr=subprocess.PIPE, check=True)
    check((tmp_path / "out").read_bytes(), found.stderr, note(1))


@pytest.mark.parametrize("size", [99_000, 150_000, 1_000_000])
def test_a_line_beyond_the_limit_is_dropped_and_the_next_one_is_read(size):
    sent = lines(note(1), b'"' + b"x" * size + b'"\n', b"\xff\n", note(2))
    found = subprocess.run(COMMAND, input=sent, capture_output=True, check=True)
    check(found.stdout, found.stderr, note(1), note(2))


def test_a_client_that_reads_nothing_does_not_keep_the_server_from_ending():
    process = subprocess.Popen(
        [*COMMAND, "quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        process.stdin.write(lines(note(1, "x" * 90_000)))
        process.stdin.close()
        assert process.stderr.read().decode().splitlines()[-1].startswith("left to read")
        assert process.wait() == 0


def test_a_client_that_is_gone_before_its_answer_is_no_error():
    process = subprocess.Popen(
        [*COMMAND, "quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        process.stdout.close()
        process.stdin.write(lines(*(note(number, "x" * 50_000) for number in range(5))))
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
