"""What running a program costs: run_code one after another and many at once, and run_jailed, beside a bare interpreter.

Run `python benchmarks/programs.py [--quick]`. Compare figures of one run only: all of them share the machine's load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from spade_environments.sandbox import (
    CodeRunner,
    Execution,
    LocalCodeSettings,
    open_code_runner,
    python_folders,
    run_jailed,
)

PROGRAM = "print(sum(map(int, input().split())))"
WITH_NUMPY = "import numpy as np\nprint(np.fromstring(input(), sep=' ').astype(int).sum())"
STDIN, STDOUT = "1 2 3\n", "6\n"


def bare() -> None:
    """The same program in a fresh interpreter, without any isolation."""
    found = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM], input=STDIN, capture_output=True, text=True, check=True
    )
    assert found.stdout == STDOUT


async def jailed() -> Execution:
    command = [sys.executable, "-I", "-c", PROGRAM]
    return await run_jailed(command, readable=python_folders(sys.executable), stdin=STDIN)


async def in_turn(work: Callable[[], Awaitable[Execution]], count: int) -> list[float]:
    """Milliseconds of one run after another."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        execution = await work()
        found.append((time.perf_counter() - start) * 1000)
        assert execution.stdout == STDOUT, execution
    return found


async def at_once(work: Callable[[], Awaitable[Execution]], count: int) -> float:
    """Runs a second, all asked for at once."""
    start = time.perf_counter()
    found = await asyncio.gather(*(work() for _ in range(count)))
    assert {execution.stdout for execution in found} == {STDOUT}
    return count / (time.perf_counter() - start)


def spread(name: str, milliseconds: list[float]) -> dict[str, float]:
    return {
        f"{name}_ms_p50": statistics.median(milliseconds),
        f"{name}_ms_p99": statistics.quantiles(milliseconds, n=100)[98],
    }


async def of_runner(name: str, settings: LocalCodeSettings, code: str, count: int) -> dict[str, Any]:
    async def work(runner: CodeRunner) -> Execution:
        return await runner.run_code(code, stdin=STDIN)

    start = time.perf_counter()
    async with open_code_runner(settings) as runner:
        await work(runner)
        figures: dict[str, Any] = {f"{name}_start_seconds": time.perf_counter() - start, f"{name}_level": runner.level}
        figures |= spread(name, await in_turn(lambda: work(runner), count))
        figures[f"{name}_a_second"] = await at_once(lambda: work(runner), 4 * count)
    return figures


async def measure(quick: bool) -> dict[str, Any]:
    count = 50 if quick else 250
    figures: dict[str, Any] = {}
    times = []
    for _ in range(count // 5):
        start = time.perf_counter()
        bare()
        times.append((time.perf_counter() - start) * 1000)
    figures |= spread("bare", times)
    figures |= await of_runner("fork_only", LocalCodeSettings(layers=()), PROGRAM, count)
    figures |= await of_runner("local", LocalCodeSettings(), PROGRAM, count)
    figures |= await of_runner("numpy", LocalCodeSettings(), WITH_NUMPY, count)
    figures |= spread("jailed", await in_turn(jailed, count // 5))
    figures["layers_ratio"] = figures["local_a_second"] / figures["fork_only_a_second"]
    figures["bare_over_local"] = figures["bare_ms_p50"] / figures["local_ms_p50"]
    figures["jailed_over_bare"] = figures["jailed_ms_p50"] / figures["bare_ms_p50"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions")
    figures = asyncio.run(measure(parser.parse_args().quick))
    for name, value in figures.items():
        print(f"{name:28} {value if isinstance(value, str) else format(value, '.4g'):>12}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
