"""Many episodes at once, and many one after another: nobody is lost and nothing is left."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spade_environments import EnvironmentFault, FaultKind, HostFault, ToolCall
from spade_environments.sandbox import Limits, LocalSandboxSettings, open_sandbox

ACT = ToolCall(name="act", arguments={"action": "x"})
PATIENT = LocalSandboxSettings(limits=Limits(wall_floor=120.0, episode_wall=600.0))
"""CPU limits alone: the wall clock of a crowded machine ends nothing."""


def descendants(root):
    """Process ids below `root`, at any depth."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
            except OSError:
                continue
    found = {root}
    for _ in range(6):
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {root}


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_400_episodes_live_at_once_and_each_keeps_its_own_state(make_spec, make_text_env):
    spec = make_spec(
        make_text_env(
            reset="self.seed, self.count = seed, 0\nreturn 'go', {}",
            step="self.count += 1\nreturn f'{self.seed} {self.count}', 0.0, False, False, {}",
        )
    )
    async with open_sandbox() as sandbox:

        async def episode(seed, ready, done):
            async with await sandbox.open(spec, zygote=seed % 2) as env:
                await env.reset(seed)
                await ready.wait()
                said = [(await env.step(ACT)).observation.text for _ in range(5)]
                await done.wait()
            return said

        ready, done = asyncio.Barrier(401), asyncio.Barrier(401)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(episode(seed, ready, done)) for seed in range(400)]
            await ready.wait()
            assert len(descendants(os.getpid())) >= 403
            await done.wait()
        said = [task.result() for task in tasks]
        assert len(descendants(os.getpid())) == 3
    assert said == [[f"{seed} {count}" for count in range(1, 6)] for seed in range(400)]
    assert descendants(os.getpid()) == set()


async def test_hostile_neighbours_cost_no_honest_episode(make_spec, make_text_env):
    honest, hostile = make_spec(make_text_env()), make_spec(make_text_env(step="while True: pass"))
    async with open_sandbox(PATIENT) as sandbox:

        async def episode(spec):
            async with await sandbox.open(spec) as env:
                await env.reset(0)
                return [(await env.step(ACT)).observation.text for _ in range(20)]

        specs = [hostile if number % 20 == 0 else honest for number in range(60)]
        ends = await asyncio.gather(*(episode(spec) for spec in specs), return_exceptions=True)
    assert [end for number, end in enumerate(ends) if number % 20] == [["ok"] * 20] * 57
    assert all(isinstance(end, EnvironmentFault) for end in ends[::20])


async def test_heavy_honest_steps_of_a_crowd_are_not_taken_for_hung_ones(make_spec, make_text_env):
    """48 steps of about 0.1 s of CPU at once, under the limits of every day; two cores take seconds for them."""
    spec = make_spec(make_text_env(step="x = 0\nfor n in range(1_200_000): x += n\nreturn 'ok', 0.0, False, False, {}"))
    async with open_sandbox() as sandbox:
        together = asyncio.Barrier(48)

        async def episode():
            async with await sandbox.open(spec) as env:
                await env.reset(0)
                await together.wait()
                try:
                    return (await env.step(ACT)).observation.text
                except HostFault:  # others crowd this machine: played again, once, as a rollout does it
                    async with await sandbox.open(spec) as again:
                        await again.reset(0)
                        return (await again.step(ACT)).observation.text

        assert await asyncio.gather(*(episode() for _ in range(48))) == ["ok"] * 48


async def spinner_and_sleeper_among_others(honest, spinner, sleeper):
    """How the two ended, the CPU time of one and the wall time of the other, and the steps of the others meanwhile."""
    strict = LocalSandboxSettings(limits=Limits(step_cpu=0.3, wall_floor=120.0, episode_wall=600.0))
    hasty = LocalSandboxSettings(limits=Limits(wall_floor=2.0, wall_factor=0.0))
    async with open_sandbox(hasty) as hasty, open_sandbox(strict) as patient:
        running, steps = True, []

        async def other():
            async with await patient.open(honest) as env:
                await env.reset(0)
                count = 0
                while running:
                    assert (await env.step(ACT)).observation.text == "ok"
                    count += 1
                return count

        async def hostile(sandbox, spec):
            async with await sandbox.open(spec) as env:
                await env.reset(0)
                start, child = time.monotonic(), vars(env)["_backend"]
                with pytest.raises(EnvironmentFault) as caught:
                    await env.step(ACT)
                stalled = vars(child)["_watch"].stalled
                return caught.value.kind, vars(child)["_process"].ended.result().cpu, time.monotonic() - start - stalled

        others = [asyncio.create_task(other()) for _ in range(62)]
        ends = await asyncio.gather(hostile(patient, spinner), hostile(hasty, sleeper))
        running = False
        steps = await asyncio.gather(*others)
    return ends, steps


def test_a_spinner_and_a_sleeper_end_soon_after_their_limits_while_62_others_go_on(make_spec, make_text_env):
    specs = [make_spec(make_text_env(step=step)) for step in (
        "return 'ok', 0.0, False, False, {}", "while True: pass", "import queue; queue.Queue().get()",
    )]  # fmt: skip
    with ThreadPoolExecutor(1) as thread:  # a rollout may run off the main thread
        (spun, slept), steps = thread.submit(lambda: asyncio.run(spinner_and_sleeper_among_others(*specs))).result()
    assert spun[0] is FaultKind.TIMEOUT_CPU
    assert 0.3 <= spun[1] < 1.3
    assert slept[0] is FaultKind.TIMEOUT_WALL
    assert 2.0 <= slept[2] < 3.0
    assert min(steps) > 0


@pytest.mark.slow
async def test_400_episodes_with_one_in_twenty_hostile_lose_no_honest_one_and_little_time(make_spec, make_text_env):
    honest = make_spec(make_text_env(step="sum(range(60_000))\nreturn 'ok', 0.0, False, False, {}"))
    steps = ("while True: pass", "raise ValueError", "raise SystemExit", "bytearray(1 << 40)", "return 'x' * 10**7")
    hostile = [make_spec(make_text_env(step=step)) for step in steps]

    async def run(specs):
        async with open_sandbox(PATIENT) as sandbox:

            async def episode(spec):
                async with await sandbox.open(spec) as env:
                    await env.reset(0)
                    return [(await env.step(ACT)).observation.text for _ in range(20)]

            start = time.monotonic()
            ends = await asyncio.gather(*(episode(spec) for spec in specs), return_exceptions=True)
            return time.monotonic() - start, ends

    clean, ends = await run([honest] * 400)
    assert ends == [["ok"] * 20] * 400
    chaos, ends = await run([hostile[n // 20 % 5] if n % 20 == 0 else honest for n in range(400)])
    assert [end for n, end in enumerate(ends) if n % 20] == [["ok"] * 20] * 380
    assert all(isinstance(end, EnvironmentFault) for end in ends[::20])
    assert chaos < 2 * clean


async def test_episodes_leave_no_process_no_descriptor_and_no_memory(make_spec, make_text_env):
    await assert_leaves_nothing(make_spec(make_text_env()), rounds=300)


@pytest.mark.slow
async def test_10000_episodes_leave_no_process_no_descriptor_and_no_memory(make_spec, make_text_env):
    await assert_leaves_nothing(make_spec(make_text_env()), rounds=10_000)


async def assert_leaves_nothing(spec, rounds):
    async with open_sandbox() as sandbox:

        async def episode():
            async with await sandbox.open(spec) as env:
                await env.reset(0)
                await env.step(ACT)

        async def worker(share):
            for _ in range(share):
                await episode()

        await asyncio.gather(*(worker(5) for _ in range(8)))
        before = descriptors(), descendants(os.getpid()), _resident()
        await asyncio.gather(*(worker(rounds // 8) for _ in range(8)))
        assert (descriptors(), descendants(os.getpid())) == before[:2]
        assert _resident() - before[2] < 20 * 2**20


def _resident():
    """Resident bytes of this process and the sandbox's own together."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in {os.getpid(), *descendants(os.getpid())}]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")
