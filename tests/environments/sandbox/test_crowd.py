"""Many episodes at once, and many one after another: nobody is lost and nothing is left."""

import asyncio
import os
from pathlib import Path

import pytest

from spade_environments import EnvironmentFault, ToolCall
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
