"""The sandbox of a machine without the kernel's layers: every episode an interpreter of its own, at level D."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from spade_environments import EnvironmentFault, FaultKind, HostFault, ToolCall
from spade_environments.registry import find
from spade_environments.sandbox import Limits, LocalSandboxSettings, Sandbox, open_sandbox
from spade_environments.sandbox.plain import silent_end

ACT = ToolCall(name="act", arguments={"action": "x"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    settings = LocalSandboxSettings(limits=Limits(wall_floor=120.0), extra_modules=("os", "resource"))
    async with open_sandbox(settings, system="darwin") as opened:
        yield opened


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_gold_wins_at_level_d_and_the_same_seed_is_the_same_instance(sandbox):
    assert sandbox.level == "D"
    openings = []
    for zygote in (0, 1):
        async with await sandbox.open(find("ticket_desk"), zygote=zygote) as env:
            openings.append((await env.reset(7)).text)
            for action in await env.solution():
                result = await env.step(action)
            assert result.reward == 1.0
    assert openings[0] == openings[1]


FAULTS = {
    "spends its budget": (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (0, 21))\nwhile True: pass", FaultKind.BUDGET_EPISODE,
    ),
    "ends its process": ("import os; os._exit(3)", FaultKind.EXIT),
    "hangs up": ("import os; os.closerange(3, 16)\nwhile True: pass", FaultKind.PROTOCOL),
    "raises": ("return 1 // 0", FaultKind.ENV_ERROR),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_has_its_kind_and_ends_the_process(name, sandbox, make_spec, make_text_env):
    body, kind = FAULTS[name]
    env = await sandbox.open(make_spec(make_text_env(step=body)))
    await env.reset(0)
    with pytest.raises(EnvironmentFault) as caught:
        await env.step(ACT)
    assert (caught.value.kind, caught.value.phase) == (kind, "step")
    await env.aclose()
    assert sandbox._children == set()


async def test_what_waits_for_ever_is_ended_by_its_wall_limit(make_spec, make_text_env):
    body = make_text_env(step="import queue; queue.Queue().get()")
    limits = Limits(step_cpu=0.2, wall_factor=10.0, wall_floor=2.0, load_cpu=6.0)
    async with open_sandbox(LocalSandboxSettings(limits=limits), system="darwin") as opened:
        env = await opened.open(make_spec(body))
        await env.reset(0)
        with pytest.raises(HostFault, match="asleep or on a busy machine"):
            await env.step(ACT)
        assert opened._children == set()


@pytest.mark.parametrize(
    ("code", "cpu", "waited", "kind"),
    [
        (-9, 5.0, 10.0, FaultKind.TIMEOUT_CPU),
        (-9, 4.9, 10.0, FaultKind.HOST_FAULT),
        (-9, 0.0, 10.0, FaultKind.HOST_FAULT),
        (-signal.SIGXCPU, 21.0, 0.0, FaultKind.BUDGET_EPISODE),
        (-9, 21.0, 0.0, FaultKind.BUDGET_EPISODE),
        (-9, 0.1, 0.0, FaultKind.PROTOCOL),
        (0, 0.1, 0.0, FaultKind.EXIT),
        (-11, 0.1, 0.0, FaultKind.CRASH),
    ],
)
async def test_what_a_silent_end_means_is_a_table(code, cpu, waited, kind):
    fault = silent_end(code, cpu, waited, "step", Limits())
    assert fault.kind is kind
    assert isinstance(fault, HostFault) is (kind is FaultKind.HOST_FAULT)


async def test_a_refused_import_is_told_by_name(sandbox, make_spec, make_text_env):
    with pytest.raises(EnvironmentFault, match="module 'socket' is not available here") as caught:
        await sandbox.open(make_spec(make_text_env(top="import socket")))
    assert caught.value.kind is FaultKind.REJECT


async def test_nothing_of_the_trainers_environment_is_there(sandbox, make_spec, make_text_env, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    body = make_text_env(step="import os; return str(dict(os.environ)), 0.0, False, False, {}")
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        assert "SECRET" not in (await env.step(ACT)).observation.text


async def test_closing_the_sandbox_leaves_no_process(make_spec, make_text_env):
    async with open_sandbox(LocalSandboxSettings(), system="darwin") as opened:
        env = await opened.open(make_spec(make_text_env()))
        pid = env._backend._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_closing_an_episode_wakes_who_waits_for_it_and_two_requests_at_once_are_refused(
    sandbox, make_spec, make_text_env
):
    env = await sandbox.open(make_spec(make_text_env(step="import queue; queue.Queue().get()")))
    await env.reset(0)
    step = asyncio.create_task(env.step(ACT))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one request at a time"):
        await env.step(ACT)
    async with asyncio.timeout(60):  # the wall limit is 120 s
        await env.aclose()
        with pytest.raises(HostFault, match="closed"):
            await step


async def test_what_an_episode_has_started_ends_with_it(sandbox, make_spec, make_text_env):
    wait = "if not pid: __import__('queue').Queue().get()"
    step = f"import os\npid = os.fork()\n{wait}\nreturn str(pid), 0.0, False, False, {{}}"
    async with await sandbox.open(make_spec(make_text_env(step=step))) as env:
        await env.reset(0)
        grandchild = int((await env.step(ACT)).observation.text)
        os.kill(grandchild, 0)
    until = time.monotonic() + 10
    while _lives(grandchild) and time.monotonic() < until:
        pass
    assert not _lives(grandchild)


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


async def test_a_closed_sandbox_opens_no_more(make_spec, make_text_env):
    async with open_sandbox(LocalSandboxSettings(), system="darwin") as opened:
        with pytest.raises(ValueError, match="use 0 or 1"):
            await opened.open(make_spec(make_text_env()), zygote=2)
    with pytest.raises(RuntimeError, match="closed"):
        await opened.open(make_spec(make_text_env()))


async def test_windows_has_no_sandbox():
    with pytest.raises(HostFault, match="does not run on Windows"):
        open_sandbox(system="win32")
