"""Programs in sandboxes of the E2B service, against a stand-in for it on this machine."""

import logging
import sys
import time

import pytest

from spade_environments import HostFault
from spade_environments.sandbox import CodeLimits, E2BCodeSettings, open_code_runner
from tests.environments.sandbox.e2b_stand_in import StandIn


@pytest.fixture
def service():
    opened = StandIn()
    yield opened
    opened.close()


def settings(service, **changes):
    limits = CodeLimits(wall_floor=120.0, output=1000, flood=100_000)
    given = {"api_key": "a-key", "api_url": service.url, "sandbox_url": service.url, "call_timeout": 60.0}
    return E2BCodeSettings(**{"limits": limits, **given, **changes})


ENDINGS = {
    "a result": ("print(int(input()) + 1)\nimport sys\nprint('on', file=sys.stderr)", "ok", 0, "5\n", "on\n", ""),
    "an exception": ("print(1)\n1 / 0", "error", 1, "1\n", None, "ZeroDivisionError: division by zero\n"),
    "broken syntax": ("def f(:", "error", 1, "", None, "SyntaxError: invalid syntax\n"),
    "a status": ("raise SystemExit(3)", "exit", 3, "", "", "the program ended with status 3"),
    "memory": ("x = bytearray(1 << 30)", "memory", 1, "", None, "MemoryError\n"),
    "a spin": ("while True: pass", "timeout_cpu", -9, "", "", "more than 0.3 s of CPU"),
    "a fall": ("import os\nos.abort()", "crash", -6, "", "", "the process died of signal 6 (Aborted)"),
    "long output": ("print('x' * 5000)", "ok", 0, "x" * 1000, "", ""),
    "endless output": ("while True: print('x' * 100)", "output", -25, None, "", "bytes written to one stream or file"),
    "a child left behind": ("import os, time\nif os.fork() == 0: time.sleep(1000)", "ok", 0, "", "", ""),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_program_has_the_outcomes_that_it_has_here(name, service):
    code, outcome, status, stdout, stderr, error = ENDINGS[name]
    async with open_code_runner(settings(service)) as runner:
        found = await runner.run_code(code, stdin="4", timeout=0.3, memory=64 << 20)
    assert (found.outcome, found.exit_code) == (outcome, status)
    assert stdout in (None, found.stdout)
    assert stderr in (None, found.stderr)
    assert found.error.endswith(error)
    assert found.truncated == ("output" in name)
    assert service.live == set()


async def test_a_program_that_waits_is_ended_at_the_wall_limit(service):
    async with open_code_runner(settings(service)) as runner:
        found = await runner.run_code("import time\nprint('on', flush=True)\ntime.sleep(1000)", wall=1.0)
    assert (found.outcome, found.stdout) == ("timeout_wall", "on\n")


async def test_each_program_has_a_sandbox_of_its_own_with_an_end_and_without_a_network(service):
    async with open_code_runner(settings(service, template="mine", call_timeout=50.0)) as runner:
        assert runner.level == "remote"
        for _ in range(2):
            await runner.run_code("", timeout=20)
    told = {"templateID": "mine", "timeout": 200 + 3 * 50, "allow_internet_access": False}
    assert [{key: body[key] for key in told} for body in service.made] == [told] * 2
    assert service.keys == {"a-key"}


FAULTS = {
    ("create", "hang"): "did not make a sandbox in 2 s",
    ("create", "500"): "did not make a sandbox: .*out of order",
    ("create", "drop"): "did not make a sandbox: ",
    ("execute", "hang"): "did not run the program",
    ("execute", "500"): "did not run the program: .*out of order",
    ("execute", "drop"): "did not run the program: ",
    ("stream", "hang"): "did not run the program",
    ("stream", "drop"): "did not run the program: ",
    ("stream", "garbage"): "did not run the program: JSONDecodeError",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_service_that_fails_is_the_hosts_fault_and_keeps_no_sandbox(fault, service):
    place, kind = fault
    service.faults[place] = kind
    hasty = {"call_timeout": 2.0, "limits": CodeLimits(wall_floor=0.5, wall_factor=0.0)} if kind == "hang" else {}
    async with open_code_runner(settings(service, **hasty)) as runner:
        started = time.monotonic()
        with pytest.raises(HostFault, match=FAULTS[fault]):
            await runner.run_code("print(1)")
    assert time.monotonic() - started < 60
    assert service.live == set()
    assert len(service.made) == (0 if place == "create" else 2)


@pytest.mark.parametrize("kind", ["hang", "500", "drop"])
async def test_a_sandbox_that_cannot_be_killed_costs_no_result_and_is_told(kind, service, caplog):
    service.faults["kill"] = kind
    async with open_code_runner(settings(service, call_timeout=60.0 if kind != "hang" else 5.0)) as runner:
        with caplog.at_level(logging.WARNING):
            assert (await runner.run_code("print(1)")).stdout == "1\n"
    assert "it ends by itself at the end of its lifetime" in caplog.text
    assert service.live == {"sandbox0"}


async def test_an_answer_without_the_programs_end_is_the_hosts_fault(service):
    async with open_code_runner(settings(service)) as runner:
        with pytest.raises(HostFault, match="without the program's end: Died"):
            await runner.run_code("import os\nos.kill(os.getppid(), 9)")


async def test_a_wrong_key_is_told_and_not_tried_again(service):
    async with open_code_runner(settings(service, api_key="wrong")) as runner:
        with pytest.raises(HostFault, match="unknown key") as caught:
            await runner.run_code("")
    assert caught.value.kind == "sandbox_setup"


async def test_a_missing_key_is_told_at_once(service, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    with pytest.raises(HostFault, match="set E2B_API_KEY, or give api_key"):
        async with open_code_runner(settings(service, api_key="")):
            raise AssertionError("it opened")


async def test_the_key_may_come_from_the_environment(service, monkeypatch):
    monkeypatch.setenv("E2B_API_KEY", "from-outside")
    async with open_code_runner(settings(service, api_key="")) as runner:
        await runner.run_code("")
    assert service.keys == {"from-outside"}


async def test_a_missing_package_is_told_at_once(service, monkeypatch):
    monkeypatch.setitem(sys.modules, "e2b_code_interpreter", None)
    with pytest.raises(HostFault, match=r"pip install 'spade-agents\[sandbox\]'"):
        async with open_code_runner(settings(service)):
            raise AssertionError("it opened")


def test_a_key_is_never_shown():
    assert "a-key" not in repr(E2BCodeSettings(api_key="a-key"))
