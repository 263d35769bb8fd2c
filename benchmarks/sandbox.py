"""The sandbox's own cost: designs side by side, a crowd of live children against a bare exchange, a crowd with chaos.

Run `python benchmarks/sandbox.py [--quick]`. Compare figures of one run only: all of them share the machine's load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import select
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from spade_environments import EnvironmentFault, EnvironmentSpec, Skill, ToolCall
from spade_environments.env import EpisodeEnv
from spade_environments.faults import FaultKind, HostFault, SandboxFault
from spade_environments.inside import supervisor
from spade_environments.limits import Limits
from spade_environments.sandbox import InlineSandboxSettings, LocalSandboxSettings, Sandbox, open_sandbox, process
from spade_environments.wire import Failed, decode, encode

R = TypeVar("R")
SOURCE = '''
from spade_environments import TextEnv


class Countdown(TextEnv):
    """Say the number that comes next."""

    def reset(self, seed):
        self.number = 10 + self.rng.randrange(10)
        return f"Count down from {self.number}.", {}

    def step(self, action):
        self.number -= 1
        STEP
        return f"{self.number} comes next.", 0.0, False, False, {}

    def solution(self):
        return ["next"]
'''
ACT = ToolCall(name="act", arguments={"action": "next"})
STEPS = 10
ROUNDS = 20
# Not vars(): an object whose dictionary was once asked for is slower from then on.
backend_of, process_of, channel_of = attrgetter("_backend"), attrgetter("_process"), attrgetter("_socket")


def countdown(step: str = "pass") -> EnvironmentSpec:
    source = SOURCE.replace("STEP", step)
    return EnvironmentSpec(name="countdown", source=source, skill=Skill.PATTERN_RECOGNITION)


SPEC = countdown()
# In the chaos an honest step does about a millisecond of work, as one that has something to compute.
WORKING = countdown("sum(range(60_000))")
HOSTILE = [
    countdown(step)
    for step in (
        "while True: pass",
        "raise ValueError",
        "raise SystemExit",
        "return 'x', float('nan'), False, False, {}",
        "return 'x' * 10**7, 0.0, False, False, {}",
        "return 10**10**9, 0.0, False, False, {}",
        "bytearray(1 << 40)",
        "return self.step(action)",
    )
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A way to run environments.

    Attributes:
        name: of its row.
        open: a sandbox of that kind.
        share: part of the rounds that it takes part in; slow ones in fewer.
    """

    name: str
    open: Callable[[], AbstractAsyncContextManager[Sandbox]]
    share: float = 1.0


@contextmanager
def without_lockdown() -> Iterator[None]:
    """Zygotes started meanwhile fork, hand over the channel, and no more: no limit, no dropped right, no layer."""
    locked = supervisor.BOOT
    start = "importlib.import_module('inside.' + entry)"
    supervisor.BOOT = locked.replace(
        start,
        "lock = importlib.import_module('inside.lockdown'); lock.seal_zygote = lambda policy: None; "
        "lock.shut_in = lambda channel, standard, *_: lock._keep_only(channel, standard) or 'D'; "
        f"importlib.import_module('inside.supervisor').BOOT = sys.orig_argv[sys.orig_argv.index('-c') + 1]; {start}",
    )
    try:
        yield
    finally:
        supervisor.BOOT = locked


@asynccontextmanager
async def open_fork_only() -> AsyncIterator[Sandbox]:
    async with AsyncExitStack() as stack:
        with without_lockdown():
            sandbox = await stack.enter_async_context(open_sandbox(LocalSandboxSettings(layers=())))
        yield sandbox


class BubblewrapChild:
    """A fresh interpreter in namespaces of its own, over the same frames; no limit is kept."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        folder = Path(process.__file__).parent.parent / "inside"
        boot = supervisor.BOOT.replace(".main(", ".serve(").replace(", *options)", ")")
        jail = [
            "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]
        command = [*jail, sys.executable, *supervisor.FLAGS, "-c", boot, str(folder), "worker", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(command, env={}, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._socket.setblocking(False)

    async def request(self, operation: str, payload: dict[str, Any], reply: type[R]) -> R:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._socket, encode("", operation, payload))
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            piece = await loop.sock_recv(self._socket, 65536)
            if not piece:
                raise await self.refuse("the process ended")
            data += piece
        found = decode(data[4:], "", reply)
        if isinstance(found, Failed):
            raise await self.refuse(found.text)
        return found

    async def refuse(self, detail: str) -> SandboxFault:
        return HostFault(FaultKind.HOST_FAULT, "step", detail)

    async def aclose(self) -> None:
        self._socket.close()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)


class BubblewrapSandbox:
    """Opens them."""

    level = "namespaces"
    limits = Limits()

    async def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> EpisodeEnv:
        async def connect() -> BubblewrapChild:
            return BubblewrapChild()

        return await EpisodeEnv.open(spec.source, self.limits, connect)


@asynccontextmanager
async def open_bubblewrap() -> AsyncIterator[Sandbox]:
    yield BubblewrapSandbox()


def designs() -> list[Design]:
    """Those that this machine can run."""
    found = [
        Design(name="in_process", open=lambda: open_sandbox(InlineSandboxSettings(), trusted=frozenset({SPEC.id}))),
        Design(name="fork_only", open=open_fork_only),
        Design(name="all_layers", open=open_sandbox),
    ]
    tried = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    if shutil.which("bwrap") and subprocess.run(tried, capture_output=True, check=False).returncode == 0:
        found.append(Design(name="bubblewrap", open=open_bubblewrap, share=0.1))
    return found


async def episode(sandbox: Sandbox, spec: EnvironmentSpec = SPEC, steps: int = STEPS) -> None:
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        for _ in range(steps):
            await env.step(ACT)


async def episodes_in_parallel(sandbox: Sandbox, count: int) -> float:
    """Seconds of so many whole episodes of ten steps at once: fork, load, reset, steps, kill, reap."""
    return await seconds(lambda: asyncio.gather(*(episode(sandbox) for _ in range(count))))


async def step_times(env: EpisodeEnv, count: int) -> list[float]:
    """Microseconds of one step after another in one episode."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        await env.step(ACT)
        found.append((time.perf_counter() - start) * 1e6)
    return found


async def measure_designs(rounds: int) -> dict[str, float]:
    """All designs in turn, round after round: what the machine does meanwhile falls on each of them."""
    parallel, figures = 32, {}
    async with AsyncExitStack() as stack:
        opened = [(design, await stack.enter_async_context(design.open())) for design in designs()]
        spent: dict[str, list[float]] = {design.name: [] for design, _ in opened}
        times: dict[str, list[float]] = {design.name: [] for design, _ in opened}
        for turn in range(-1, rounds):  # the first one warms up
            for design, sandbox in opened if turn % 2 else reversed(opened):
                if turn < max(1, rounds * design.share):
                    taken = await episodes_in_parallel(sandbox, parallel)
                    async with await sandbox.open(SPEC) as env:
                        await env.reset(0)
                        found = await step_times(env, 200)
                    if turn >= 0:
                        spent[design.name].append(taken)
                        times[design.name] += found
    for name, taken_each in spent.items():
        figures[f"{name}_episodes_a_second"] = parallel / statistics.median(taken_each)
        figures |= spread(f"{name}_step_us", times[name])
    return figures


async def measure_crowd(children: int) -> dict[str, float]:
    """Every child at work, through the sandbox and, in turn, by a bare loop over the same channels."""
    async with open_sandbox() as sandbox:
        start = time.perf_counter()
        envs = await asyncio.gather(*(sandbox.open(SPEC) for _ in range(children)))
        figures = {"crowd_children": children, "crowd_start_seconds": time.perf_counter() - start}
        backends = [backend_of(env) for env in envs]
        await asyncio.gather(*(env.reset(0) for env in envs))
        pids = [process_of(backend).pid for backend in backends]
        figures["crowd_mib_each"] = statistics.fmean(own_mib(pid) for pid in pids)
        times: list[float] = []

        async def worker(env: EpisodeEnv) -> None:
            for _ in range(ROUNDS):
                await env.step(ACT)

        async def timed(env: EpisodeEnv) -> None:
            times.extend(await step_times(env, ROUNDS))

        channels: list[socket.socket] = [channel_of(backend) for backend in backends]
        through: list[float] = []
        bare: list[float] = []
        for turn in range(-1, 12):  # the first one warms up: it copies the pages that each child will write to
            taken = await seconds(lambda: asyncio.gather(*(worker(env) for env in envs)))
            alone = bare_seconds(channels, ROUNDS)
            if turn >= 0:
                through.append(taken)
                bare.append(alone)
        await asyncio.gather(*(timed(env) for env in envs))
        await asyncio.gather(*(env.aclose() for env in envs))
    steps = children * ROUNDS
    figures |= {
        "crowd_steps_a_second": steps / statistics.median(through),
        "bare_steps_a_second": steps / statistics.median(bare),
    }
    return figures | spread("crowd_step_us", times)


def own_mib(pid: int) -> float:
    """What a process holds alone, page tables included; not a number where only root may know."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except PermissionError:
        return float("nan")
    lines += Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_", "VmPTE"))) / 1024


def bare_seconds(channels: Sequence[socket.socket], rounds: int) -> float:
    """The same frames over the same channels with nothing but epoll, send and recv; no reply is decoded or checked."""
    frame = encode("0" * 16, "step", {"name": "act", "arguments": {"action": "next"}, "text": None})
    poll, left = select.epoll(), {channel.fileno(): rounds for channel in channels}
    by_descriptor = {channel.fileno(): channel for channel in channels}
    start = time.perf_counter()
    for channel in channels:
        poll.register(channel, select.EPOLLIN)
        channel.send(frame)
    while left:
        for descriptor, _ in poll.poll():
            by_descriptor[descriptor].recv(65536)
            left[descriptor] -= 1
            if left[descriptor]:
                by_descriptor[descriptor].send(frame)
            else:
                del left[descriptor]
    poll.close()
    return time.perf_counter() - start


async def measure_chaos(children: int) -> dict[str, float]:
    """Twenty steps of a crowd, clean and with one in twenty hostile: seconds, and honest episodes lost."""
    figures, lost = {}, 0
    for name, hostile in (("clean", children + 1), ("chaos", 20)):
        specs = [WORKING if n % hostile else HOSTILE[n // hostile % len(HOSTILE)] for n in range(1, children + 1)]
        async with open_sandbox() as sandbox:
            start = time.perf_counter()
            ends = await asyncio.gather(*(episode(sandbox, spec, ROUNDS) for spec in specs), return_exceptions=True)
            figures[f"{name}_seconds"] = time.perf_counter() - start
        lost += sum(end is not None for spec, end in zip(specs, ends, strict=True) if spec is WORKING)
        figures[f"{name}_hostile"] = sum(spec is not WORKING for spec in specs)
        figures[f"{name}_hostile_stopped"] = sum(isinstance(end, EnvironmentFault) for end in ends)
    return figures | {"chaos_honest_lost": lost}


async def seconds(work: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{name}_p50": statistics.median(values), f"{name}_p99": statistics.quantiles(values, n=100)[98]}


async def measure(quick: bool) -> dict[str, float]:
    children = 100 if quick else 400
    figures = await measure_designs(5 if quick else 25)
    figures |= await measure_crowd(children)
    figures |= await measure_chaos(children)
    figures["layers_ratio"] = figures["all_layers_episodes_a_second"] / figures["fork_only_episodes_a_second"]
    figures["crowd_ratio"] = figures["crowd_steps_a_second"] / figures["bare_steps_a_second"]
    figures["chaos_ratio"] = figures["chaos_seconds"] / figures["clean_seconds"]
    return figures


def table(figures: dict[str, float]) -> str:
    """One line a design and one for the crowd, then what is left."""
    lines = [f"{'':24}{'episodes/s':>12}{'steps/s':>12}{'step p50 us':>14}{'p99 us':>10}"]
    for name in [key.removesuffix("_episodes_a_second") for key in figures if key.endswith("_episodes_a_second")]:
        row = [figures[f"{name}_{key}"] for key in ("episodes_a_second", "step_us_p50", "step_us_p99")]
        lines.append(f"{name:24}{row[0]:12.0f}{'':12}{row[1]:14.0f}{row[2]:10.0f}")
    crowd = f"{figures['crowd_children']:.0f} live children"
    lines.append(
        f"{crowd:24}{'':12}{figures['crowd_steps_a_second']:12.0f}"
        f"{figures['crowd_step_us_p50']:14.0f}{figures['crowd_step_us_p99']:10.0f}"
    )
    lines.append(f"{'  bare exchange':24}{'':12}{figures['bare_steps_a_second']:12.0f}")
    rest = ("crowd_start_seconds", "crowd_mib_each", "clean_seconds", "chaos_seconds", "chaos_hostile",
            "chaos_hostile_stopped", "chaos_honest_lost", "layers_ratio", "crowd_ratio", "chaos_ratio")  # fmt: skip
    return "\n".join([*lines, "", *(f"{name:24}{figures[name]:12.3g}" for name in rest)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and 100 instead of 400 live children")
    figures = asyncio.run(measure(parser.parse_args().quick))
    print(table(figures))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
