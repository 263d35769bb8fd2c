"""The sandbox's own cost: episodes a second, a step's time, and a crowd against a bare exchange with the same children.

Run `python benchmarks/sandbox.py [--quick]`. Compare figures of one run only: both sides share the machine's load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import select
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from spade_environments import EnvironmentSpec, Skill, ToolCall
from spade_environments.sandbox import (
    InlineSandboxSettings,
    LocalSandboxSettings,
    Sandbox,
    SandboxSettings,
    open_sandbox,
)
from spade_environments.wire import encode

SOURCE = '''
from spade_environments import TextEnv


class Countdown(TextEnv):
    """Say the number that comes next."""

    def reset(self, seed):
        self.number = 10 + self.rng.randrange(10)
        return f"Count down from {self.number}.", {}

    def step(self, action):
        self.number -= 1
        return f"{self.number} comes next.", 0.0, False, False, {}

    def solution(self):
        return ["next"]
'''
SPEC = EnvironmentSpec(name="countdown", source=SOURCE, skill=Skill.PATTERN_RECOGNITION)
ACT = ToolCall(name="act", arguments={"action": "next"})
STEPS = 10


async def episode(sandbox: Sandbox) -> None:
    async with await sandbox.open(SPEC) as env:
        await env.reset(0)
        for _ in range(STEPS):
            await env.step(ACT)


async def episodes_a_second(sandbox: Sandbox, count: int, parallel: int) -> float:
    """Whole episodes of ten steps: fork, load, reset, steps, kill, reap."""

    async def worker() -> None:
        for _ in range(count // parallel):
            await episode(sandbox)

    return count / await seconds(lambda: asyncio.gather(*(worker() for _ in range(parallel))))


async def step_times(sandbox: Sandbox, count: int) -> list[float]:
    """Microseconds of one step after another in one episode."""
    found = []
    async with await sandbox.open(SPEC) as env:
        await env.reset(0)
        for _ in range(count):
            start = time.perf_counter()
            await env.step(ACT)
            found.append((time.perf_counter() - start) * 1e6)
    return found


async def crowd(sandbox: Sandbox, children: int, rounds: int) -> dict[str, float]:
    """Steps a second with every child at work, through the sandbox and by a bare loop over the same channels."""
    envs = await asyncio.gather(*(sandbox.open(SPEC) for _ in range(children)))
    try:
        await asyncio.gather(*(env.reset(0) for env in envs))

        async def worker(env: Any) -> None:
            for _ in range(rounds):
                await env.step(ACT)

        through = await seconds(lambda: asyncio.gather(*(worker(env) for env in envs)))
        bare = bare_seconds([vars(vars(env)["_backend"])["_socket"] for env in envs], rounds)
    finally:
        await asyncio.gather(*(env.aclose() for env in envs))
    total = children * rounds
    return {"crowd_steps_a_second": total / through, "bare_steps_a_second": total / bare, "crowd_ratio": bare / through}


def bare_seconds(channels: list[Any], rounds: int) -> float:
    """The same frames over the same channels with nothing but epoll, send and recv."""
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


async def seconds(work: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


async def measure(quick: bool) -> dict[str, Any]:
    scale = 1 if quick else 5
    figures: dict[str, Any] = {}
    backends: list[tuple[str, SandboxSettings]] = [
        ("inline", InlineSandboxSettings()),
        ("fork_only", LocalSandboxSettings(layers=())),
        ("local", LocalSandboxSettings()),
    ]
    for name, settings in backends:
        start = time.perf_counter()
        async with open_sandbox(settings, trusted=frozenset({SPEC.id})) as sandbox:
            figures[f"{name}_start_seconds"] = time.perf_counter() - start
            figures[f"{name}_level"] = sandbox.level
            await episode(sandbox)
            figures[f"{name}_episodes_a_second"] = await episodes_a_second(sandbox, 256 * scale, 64)
            times = await step_times(sandbox, 1000 * scale)
            figures[f"{name}_step_us_p50"] = statistics.median(times)
            figures[f"{name}_step_us_p99"] = statistics.quantiles(times, n=100)[98]
            if name == "local":
                figures |= await crowd(sandbox, 100 if quick else 400, 20 * scale)
    figures["layers_ratio"] = figures["local_episodes_a_second"] / figures["fork_only_episodes_a_second"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and 100 instead of 400 live children")
    figures = asyncio.run(measure(parser.parse_args().quick))
    for name, value in figures.items():
        print(f"{name:28} {value if isinstance(value, str) else format(value, '.4g'):>12}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
