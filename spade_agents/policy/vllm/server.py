"""A vLLM server as a child of this process: started, watched and stopped."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.policy.vllm.address import Address
from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.terminal import visible

__all__ = [
    "SERVED_NAME",
    "VllmServer",
    "find_interpreter",
    "open_server",
    "server_command",
    "server_environment",
]

SERVED_NAME: Final = "spade"
"""The model's name at a server of our own."""

_INSIDE: Final = Path(__file__).parent / "inside"
_LOG_LINES: Final = 15
_BATCHED_TOKENS: Final = 8192
_STOP_SECONDS: Final = 15.0
_SECRET: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)(_|$)")


class VllmServer:
    """A running server.

    Attributes:
        address: where it listens, for its owner alone.
        log: what it printed.
    """

    def __init__(self, process: subprocess.Popen[bytes], address: Address, log: Path) -> None:
        self.address, self.log = address, log
        self._process = process

    def fault(self) -> str | None:
        """Why there is no server any more, with the end of its log; `None` while it runs."""
        code = self._process.poll()
        return None if code is None else f"the vLLM server ended with exit code {code}; its last words:\n{self._tail()}"

    async def ready(self, seconds: float) -> None:
        """Wait until it answers.

        Raises:
            InfrastructureError: it ended, or did not answer within `seconds`.
        """
        deadline = time.monotonic() + seconds
        async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=self.address.socket)) as client:
            while not await _answers(client, f"{self.address.url}/health"):
                if fault := self.fault():
                    raise InfrastructureError(fault)
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"the vLLM server did not answer within {seconds:g} s (start_seconds); its last words:\n"
                        f"{self._tail()}"
                    )
                await asyncio.sleep(0.1)

    def stop(self) -> None:
        """End it and everything it started."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return visible("\n".join(lines[-_LOG_LINES:])) or "(none)"


@asynccontextmanager
async def open_server(folder: Path, settings: VllmSettings) -> AsyncIterator[VllmServer]:
    """Serve a Hugging Face folder until the block ends; the server also ends when this process does.

    Raises:
        UsageError: the interpreter of the settings is not there.
        InfrastructureError: the server does not come up.
    """
    on_cpu = _is_cpu_build(find_interpreter(settings))
    with tempfile.TemporaryDirectory(prefix="spade-vllm-") as room:
        address, log = Address(url="http://vllm", socket=f"{room}/socket"), Path(room) / "server.log"
        command = server_command(folder, settings, f"{room}/socket", on_cpu=on_cpu)
        server = VllmServer(_started(command, server_environment(settings, os.environ), log), address, log)
        try:
            await server.ready(settings.start_seconds)
            yield server
        finally:
            await asyncio.to_thread(server.stop)


def find_interpreter(settings: VllmSettings) -> str:
    """The interpreter that runs vLLM.

    Raises:
        UsageError: it is not there.
    """
    python = settings.python or sys.executable
    if shutil.which(python) is None:
        raise UsageError(f"python is {python!r}, which is no program; give the interpreter that has vLLM")
    return python


def server_command(folder: Path, settings: VllmSettings, socket: str, *, on_cpu: bool = False) -> list[str]:
    """The command line of a server whose samples can be trained on, and whose weights can be replaced.

    Args:
        folder: of the model.
        settings: of the server.
        socket: where it listens.
        on_cpu: for the build for CPUs, which dies of a request with a seed whose prompt is read in parts (its random
            generators cannot be set back), so there every prompt is read whole.
    """
    options = {
        "--model": str(folder),
        "--served-model-name": SERVED_NAME,
        "--uds": socket,
        "--dtype": settings.dtype,
        "--max-num-seqs": str(settings.concurrency),
        "--gpu-memory-utilization": str(settings.memory_share),
        # Log-probabilities of exactly the distribution that was sampled from: after temperature, top-k and top-p.
        "--logprobs-mode": "processed_logprobs",
        # No sampling default but those of a request.
        "--generation-config": "vllm",
        "--worker-extension-cls": "spade_vllm_worker.SpadeWorker",
        "--uvicorn-log-level": "warning",
    }
    if settings.context_length:
        options["--max-model-len"] = str(settings.context_length)
    flags = ["--enable-scale-out", "--enable-prompt-tokens-details", "--enable-prefix-caching"]
    if settings.eager:
        flags.append("--enforce-eager")
    if on_cpu:
        flags.append("--no-enable-chunked-prefill")
        options["--max-num-batched-tokens"] = str(max(_BATCHED_TOKENS, settings.context_length))
    if settings.placement == "colocated":
        flags.append("--enable-sleep-mode")
    words = [word for pair in options.items() for word in pair]
    program = [settings.python or sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    return [*program, *words, *flags, *settings.arguments]


def server_environment(settings: VllmSettings, present: Mapping[str, str]) -> dict[str, str]:
    """Of the server: this process's own without secrets, and what vLLM is told by variables alone."""
    kept = {name: value for name, value in present.items() if not _SECRET.search(name.upper())}
    paths = [str(_INSIDE), *filter(None, [present.get("PYTHONPATH")])]
    told = {
        "PYTHONPATH": os.pathsep.join(paths),
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": f"{settings.cache_gib:g}",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    if settings.threads:
        told["OMP_NUM_THREADS"] = str(settings.threads)
    if settings.devices:
        told["CUDA_VISIBLE_DEVICES"] = settings.devices
    return kept | told


def _is_cpu_build(python: str) -> bool:
    """Whether an interpreter's environment has vLLM's build for CPUs; seen by its files, nothing is run."""
    prefix = Path(shutil.which(python) or python).absolute().parent.parent
    return any(prefix.glob("lib/python3*/site-packages/vllm_cpu-*.dist-info"))


def _started(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A program in a process group of its own, under a supervisor that ends it when this process is gone."""
    supervised = [sys.executable, str(_INSIDE / "supervise.py"), *command]
    with log.open("wb") as sink:
        return subprocess.Popen(
            supervised, stdin=subprocess.PIPE, stdout=sink, stderr=sink, env=environment, start_new_session=True
        )


async def _answers(client: httpx2.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url, timeout=5.0)).status_code == 200
    except httpx2.HTTPError:
        return False
