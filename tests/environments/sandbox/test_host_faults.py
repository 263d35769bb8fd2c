"""What the host loses is a host fault, never an environment's, and the next episode is played again."""

import asyncio
import os
import pickle
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from spade_environments import EnvironmentFault, HostFault, ToolCall
from spade_environments.faults import FaultKind
from spade_environments.sandbox import Limits, LocalSandboxSettings, open_sandbox

ACT = ToolCall(name="act", arguments={"action": "x"})


def children_of(pid):
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def only(values):
    (value,) = values
    return value


async def lost_and_found(spec, victim):
    """Kill what `victim` picks while an episode lives; the fault it gives, and what a new episode answers."""
    async with open_sandbox() as sandbox:
        async with await sandbox.open(spec) as env:
            await env.reset(0)
            os.kill(victim(only(children_of(os.getpid()))), signal.SIGKILL)
            with pytest.raises(HostFault) as caught:
                for _ in range(10_000):
                    await env.step(ACT)
        async with await sandbox.open(spec) as env:
            await env.reset(0)
            answer = (await env.step(ACT)).observation.text
    return caught.value.kind, answer


async def test_a_killed_zygote_is_a_host_fault_and_a_fresh_one_is_started(make_spec, make_text_env):
    spec = make_spec(make_text_env())
    assert await lost_and_found(spec, lambda supervisor: only(children_of(supervisor))) == ("host_fault", "ok")


async def test_a_killed_supervisor_is_a_host_fault_and_a_fresh_one_is_started(make_spec, make_text_env):
    assert await lost_and_found(make_spec(make_text_env()), lambda supervisor: supervisor) == ("host_fault", "ok")


async def test_a_child_that_is_not_let_run_is_a_host_fault(make_spec, make_text_env):
    settings = LocalSandboxSettings(limits=Limits(wall_factor=0.0, wall_floor=1.0))
    async with open_sandbox(settings) as sandbox, await sandbox.open(make_spec(make_text_env())) as env:
        await env.reset(0)
        child = only(children_of(only(children_of(only(children_of(os.getpid()))))))
        os.kill(child, signal.SIGSTOP)
        with pytest.raises(HostFault, match="on a busy machine"):
            await env.step(ACT)


async def test_a_child_that_somebody_else_kills_is_a_host_fault(make_spec, make_text_env):
    spec = make_spec(make_text_env(step="import queue; queue.Queue().get()"))
    async with open_sandbox() as sandbox, await sandbox.open(spec) as env:
        await env.reset(0)
        child = only(children_of(only(children_of(only(children_of(os.getpid()))))))
        step = asyncio.create_task(env.step(ACT))
        await asyncio.sleep(0)
        os.kill(child, signal.SIGKILL)
        while is_alive(child):  # a child that is still on its way out looks as if it had closed its channel
            pass
        with pytest.raises(HostFault, match="killed from outside"):
            await step


async def test_a_host_that_stands_still_blames_no_child(make_spec, make_text_env):
    settings = LocalSandboxSettings(limits=Limits(wall_factor=0.0, wall_floor=1.0, episode_wall=1.5))
    async with open_sandbox(settings) as sandbox, await sandbox.open(make_spec(make_text_env())) as env:
        await env.reset(0)
        for _ in range(2):
            step = asyncio.create_task(env.step(ACT))
            await asyncio.sleep(0)
            until = time.monotonic() + 1.2
            while time.monotonic() < until:  # the event loop gets no turn
                pass
            assert (await step).observation.text == "ok"


async def test_closing_an_episode_in_the_middle_of_a_step_is_not_the_environments_fault(make_spec, make_text_env):
    spec = make_spec(make_text_env(step="import queue; queue.Queue().get()"))
    async with open_sandbox() as sandbox, await sandbox.open(spec) as env:
        await env.reset(0)
        step = asyncio.create_task(env.step(ACT))
        await asyncio.sleep(0)
        await env.aclose()
        with pytest.raises(HostFault, match="closed"):
            await step


async def test_a_request_cut_short_ends_its_child(make_spec, make_text_env):
    spec = make_spec(make_text_env(step="import queue; queue.Queue().get()"))
    async with open_sandbox() as sandbox, await sandbox.open(spec) as env:
        await env.reset(0)
        zygote = only(children_of(only(children_of(os.getpid()))))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(env.step(ACT), 0.1)
        with pytest.raises(HostFault):
            await env.step(ACT)
        await env.aclose()
        assert children_of(zygote) == set()


TRAINER = """
import asyncio, sys
from spade_environments import EnvironmentSpec, Skill, ToolCall
from spade_environments.sandbox import open_sandbox

async def main():
    spec = EnvironmentSpec(name="probe", source=sys.argv[1], skill=Skill.DATA_RETRIEVAL)
    async with open_sandbox() as sandbox:
        env = await sandbox.open(spec)
        await env.reset(0)
        print("ready", flush=True)
        await env.step(ToolCall(name="act", arguments={"action": "x"}))

asyncio.run(main())
"""


def alive_below(root):
    found, layer = set(), {root}
    while layer:
        layer = {child for pid in layer for child in children_of(pid)}
        found |= layer
    return found


def is_alive(pid):
    """Whether it runs or waits, rather than lies there for whoever inherits it to be told."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("step", ["while True: pass", "import queue; queue.Queue().get()"])
def test_a_killed_trainer_leaves_no_child(step, make_spec, make_text_env):
    spec = make_spec(make_text_env(step=step))
    trainer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(TRAINER), spec.source], stdout=subprocess.PIPE)
    assert trainer.stdout.readline() == b"ready\n"
    below = alive_below(trainer.pid)
    assert len(below) == 3
    trainer.kill()
    trainer.communicate()
    until = time.monotonic() + 1
    while time.monotonic() < until and any(is_alive(pid) for pid in below):
        pass
    assert not [pid for pid in below if is_alive(pid)]


async def test_a_machine_that_cannot_fork_is_a_host_fault(monkeypatch, make_spec):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(HostFault, match="cannot be started"):
        async with open_sandbox():
            raise AssertionError("it opened")


async def test_two_requests_at_once_are_refused(make_spec, make_text_env):
    spec = make_spec(make_text_env(step="import queue; queue.Queue().get()"))
    async with open_sandbox() as sandbox, await sandbox.open(spec) as env:
        await env.reset(0)
        first = asyncio.create_task(env.step(ACT))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one request at a time"):
            await env.step(ACT)
        await env.aclose()
        with pytest.raises(HostFault):
            await first


async def test_closing_the_sandbox_ends_what_still_waits_in_it_and_opens_no_more(make_spec, make_text_env):
    spec = make_spec(make_text_env(step="import queue; queue.Queue().get()"))
    async with open_sandbox() as sandbox:
        env = await sandbox.open(spec)
        await env.reset(0)
        step = asyncio.create_task(env.step(ACT))
        await asyncio.sleep(0)
    with pytest.raises(HostFault, match="the sandbox was closed"):
        await step
    await env.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await sandbox.open(spec)


async def test_an_episode_too_many_for_the_open_files_is_a_host_fault_and_harms_no_other(make_spec, make_text_env):
    spec = make_spec(make_text_env())
    async with open_sandbox() as sandbox, await sandbox.open(spec) as env:
        await env.reset(0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(HostFault, match="ulimit -n"):
                await sandbox.open(spec)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (await env.step(ACT)).observation.text == "ok"


async def test_a_child_is_alone_in_its_group_and_shares_the_supervisors_session(make_spec, make_text_env):
    async with open_sandbox() as sandbox, await sandbox.open(make_spec(make_text_env())) as env:
        await env.reset(0)
        supervisor = only(children_of(os.getpid()))
        child = only(children_of(only(children_of(supervisor))))
        assert (os.getpgid(child), os.getsid(child)) == (child, supervisor)
        assert os.getsid(0) != supervisor


async def test_an_episode_of_quick_steps_leaves_the_event_loop_its_turns(make_spec, make_text_env):
    async with open_sandbox() as sandbox, await sandbox.open(make_spec(make_text_env())) as env:
        await env.reset(0)
        turns, playing = 0, True

        async def other():
            nonlocal turns
            while playing:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.create_task(other())
        for _ in range(500):
            await env.step(ACT)
        seen, playing = turns, False
        await beside
    assert seen >= 10


@pytest.mark.parametrize("kind", [EnvironmentFault, HostFault])
def test_a_fault_that_crosses_a_process_is_still_the_same_fault(kind):
    crossed = pickle.loads(pickle.dumps(kind(FaultKind.MEMORY, "step", "too much")))
    assert type(crossed) is kind
    assert (crossed.kind, crossed.phase, crossed.detail) == (FaultKind.MEMORY, "step", "too much")
