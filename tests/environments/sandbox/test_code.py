"""Programs that are run once: what they may do, what they are told, and what of them is kept."""

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest
import pytest_asyncio

from spade_environments import HostFault
from spade_environments.sandbox import CodeLimits, LocalCodeSettings, open_code_runner, run_code
from spade_environments.sandbox.sync import SyncCodeRunner
from spade_environments.sandbox.sync import run_code as run_code_and_wait

pytestmark = pytest.mark.asyncio(loop_scope="module")
MARK = Path("/tmp/spade_code_mark")
LIMITS = CodeLimits(wall_floor=120.0, output=1000, flood=100_000, code=10_000, stdin=5_000_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner():
    async with open_code_runner(LocalCodeSettings(limits=LIMITS)) as opened:
        yield opened


HONEST = {
    "input()": ("print(sum(map(int, input().split())))", "1 2 3", "6\n"),
    "lines": ("import sys\nprint([line.strip() for line in sys.stdin])", "a\nb", "['a', 'b']\n"),
    "bytes at once": ("import os\nprint(os.read(0, os.fstat(0).st_size))", "abc", "b'abc'\n"),
    "the descriptor's file": ("print(open(0).read())", "äß", "äß\n"),
    "much input": ("import sys\nprint(len(sys.stdin.buffer.read()))", "x" * 3_000_000, "3000000\n"),
    "no input": ("try: input()\nexcept EOFError: print('none')", "", "none\n"),
    "written past the stream": ("import os\nprint('a', end='', flush=True)\nos.write(1, b'b')", "", "ab"),
    "a main guard": ("def main(): print(__name__)\nif __name__ == '__main__': main()", "", "__main__\n"),
    "status 0": ("import sys\nprint(1)\nsys.exit()", "", "1\n"),
    "a dataclass": ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nprint(A(1))", "", "A(x=1)\n"),
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and 1 + f(n - 1)\nprint(f(5**6))", "", "15625\n",
    ),
    "deep recursion through a cache": (
        "import sys\nfrom functools import lru_cache\nsys.setrecursionlimit(10**6)\n@lru_cache(None)\n"
        "def f(n): return n and 1 + f(n - 1)\nprint(f(50_000))", "", "50000\n",
    ),
    "threads": (
        "import threading\ndone = []\nall = [threading.Thread(target=done.append, args=(n,)) for n in range(3)]\n"
        "for one in all: one.start()\nfor one in all: one.join()\nprint(done, threading.active_count())", "",
        "[0, 1, 2] 1\n",
    ),
    "exit()": ("print(1)\nexit()", "", "1\n"),
    "numpy beside others": ("import math, numpy as np\nprint(np.e == math.e)", "", "True\n"),
    "a thread for its stack": (
        "import threading\nthreading.stack_size(1 << 26)\nt = threading.Thread(target=print, args=(7,))\n"
        "t.start(); t.join(); print(t.is_alive())", "", "7\nFalse\n",
    ),
    "left for the end": ("import atexit\natexit.register(print, 'bye')", "", "bye\n"),
    "numpy": ("import numpy as np\nprint(np.arange(5).sum())", "", "10\n"),
    "no arguments": ("import sys\nprint(sys.argv, __file__)", "", "['main.py'] main.py\n"),
    "a random choice": ("import random, uuid\nprint(len(str(uuid.uuid4())), random.random() < 1)", "", "36 True\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
async def test_an_honest_program_runs_as_it_would_elsewhere(name, runner):
    code, stdin, stdout = HONEST[name]
    found = await runner.run_code(code, stdin=stdin)
    assert (found.outcome, found.exit_code, found.stdout, found.stderr, found.error) == ("ok", 0, stdout, "", "")
    assert found.ok
    assert not found.truncated
    assert found.stdout_bytes == len(stdout.encode())


ENDINGS = {
    "an exception": ("def f():\n    1 / 0\nf()", "error", 1),
    "broken syntax": ("def f(:", "error", 1),
    "a null byte": ("print(1)\0", "error", 1),
    "an exception that cannot be shown": ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "error", 1),
    "an exception at the end": ("import atexit\nprint(1)\nclass O:\n    closed = False\n    def flush(self): 1 / 0\n"
                                "import sys\nsys.stdout = O()", "error", 1),
    "a status": ("raise SystemExit(3)", "exit", 3),
    "a status in words": ("import sys\nsys.exit('so it ends')", "exit", 1),
    "an abrupt end": ("import os\nos._exit(4)", "exit", 4),
    "memory at once": ("x = bytearray(1 << 30)", "memory", 1),
    "memory bit by bit": ("x = []\nwhile True: x.append(bytes(1 << 20))", "memory", 1),
    "a spin": ("while True: pass", "timeout_cpu", -9),
    "a spin in an expression": ("import re\nre.match(r'(a+)+$', 'a' * 50 + 'b')", "timeout_cpu", -9),
    "a spin that ignores the signal": ("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile 1: 0",
                                       "timeout_cpu", -9),
    "endless output": ("while True: print('x' * 100)", "output", -25),
    "endless errors": ("import sys\nwhile True: sys.stderr.write('x' * 100)", "output", -25),
    "a fall": ("import marshal\nc = (lambda: 0).__code__\nexec(c.replace(co_code=b'\\x64\\xff' * 4, co_consts=()))",
               "crash", -11),
    "noise on the channel": ("import os\nwhile True: os.write(3, b'x' * 1000)", "protocol", None),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
async def test_what_a_program_does_is_an_outcome_and_never_raised(name, runner):
    code, outcome, status = ENDINGS[name]
    found = await runner.run_code(code, timeout=0.3, memory=64 << 20)
    assert (found.outcome, found.exit_code) == (outcome, found.exit_code if status is None else status)
    assert found.error
    assert not found.ok
    assert found.cpu_seconds < 0.3 + 1.0


async def test_an_exception_in_a_thread_is_its_own(runner):
    code = (
        "import threading\nthread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nprint('on')\n"
        "try: thread.start()\nexcept RuntimeError as error: print(error)"
    )
    found = await runner.run_code(code)
    assert (found.outcome, found.stdout) == ("ok", "on\nthreads can only be started once\n")
    assert "ZeroDivisionError" in found.stderr


async def test_unit_tests_can_be_run_and_tell_by_the_status(runner):
    code = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual({}, 2)\nunittest.main()"
    passed, failed = [await runner.run_code(code.format(given)) for given in (2, 3)]
    assert (passed.outcome, failed.outcome, failed.exit_code) == ("ok", "exit", 1)
    assert "AssertionError: 3 != 2" in failed.stderr


async def test_a_program_that_waits_is_ended_at_the_wall_limit(runner):
    found = await runner.run_code("import time\nprint('on', flush=True)\ntime.sleep(1000)", wall=1.0)
    assert (found.outcome, found.stdout) == ("timeout_wall", "on\n")
    assert found.cpu_seconds < 1.0 <= found.wall_seconds


async def test_an_exception_is_told_with_the_lines_of_its_traceback(runner):
    found = await runner.run_code("def half(n):\n    return n / 0\n\nprint('before')\nhalf(3)")
    assert found.stdout == "before\n"
    assert "line 2, in half\n    return n / 0" in found.error
    assert found.error.endswith("ZeroDivisionError: division by zero\n")
    assert found.error.startswith('Traceback (most recent call last):\n  File "main.py", line 5, in <module>')
    assert found.stderr == found.error


async def test_output_is_kept_up_to_the_limit_and_said_to_be_cut(runner):
    found = await runner.run_code("print('x' * 5000)")
    assert (found.outcome, found.truncated, found.stdout, found.stdout_bytes) == ("ok", True, "x" * 1000, 5001)


async def test_bytes_that_are_no_text_are_shown_by_a_replacement(runner):
    found = await runner.run_code("import os\nos.write(1, b'a\\xffb')", stdin=b"\xff")
    assert (found.stdout, found.stdout_bytes) == ("a\ufffdb", 3)


REFUSED = {
    "read a file": ("open('/etc/hostname')", "PermissionError"),
    "write a file": ("open('/tmp/spade_code_mark', 'w')", "PermissionError"),
    "read its parent's environment": ("import os\nopen(f'/proc/{os.getppid()}/environ')", "PermissionError"),
    "list a folder": ("import os\nos.listdir('/')", "PermissionError"),
    "import sockets": ("import socket", "module 'socket' is not available here"),
    "import processes": ("from subprocess import run", "module 'subprocess' is not available here"),
    "import foreign functions": ("import ctypes", "module 'ctypes' is not available here"),
    "import the sandbox": ("import spade_environments", "is not available here"),
    "fork": ("import os\nos.fork()", "BlockingIOError"),
    "start a program": ("import os\nos.execv('/bin/true', ['true'])", "PermissionError"),
    "signal the host": ("import os\nos.kill(os.getppid(), 9)", "PermissionError"),
    "signal everybody": ("import os\nos.kill(-1, 9)", "PermissionError"),
    "make a pipe": ("import os\nos.pipe()", "PermissionError"),
    "make a file in memory": ("import os\nos.memfd_create('x')", "PermissionError"),
    "change its input": ("import os\nos.write(0, b'x')", "PermissionError"),
    "raise its limits": ("import resource as r\nr.setrlimit(r.RLIMIT_CPU, (99, 99))", "Error"),
    "become root": ("import os\nos.setresuid(0, 0, 0)", "PermissionError"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_attempt_on_the_machine_is_refused(name, runner):
    code, told = REFUSED[name]
    found = await runner.run_code(code)
    assert found.outcome == "error"
    assert told in found.error
    assert not marked()


async def test_no_module_that_is_there_lends_a_socket_or_a_process(runner):
    code = (
        "import sys\nfor name in ('socket', 'subprocess', '_socket', '_posixsubprocess'):\n"
        "    module = sys.modules.get(name)\n    for made in ('socket', 'Popen', 'fork_exec'):\n"
        "        try: getattr(module, made)(*([['/bin/true']] if made == 'Popen' else []))\n"
        "        except (OSError, AttributeError, TypeError): continue\n"
        "        print('made', name)\n"
    )
    assert (await runner.run_code(code)).stdout == ""
    found = await runner.run_code("import sys\nprint({'subprocess', 'multiprocessing', 'asyncio'} & set(sys.modules))")
    assert found.stdout == "set()\n"


async def test_nothing_is_known_of_the_host(runner, monkeypatch):
    monkeypatch.setenv("SPADE_TEST_SECRET", "hunter2")
    async with open_code_runner() as fresh:
        found = await fresh.run_code("import os, sys\nprint(sorted(os.environ), sys.orig_argv, os.getuid())")
    uid = 65534 if os.geteuid() == 0 else os.geteuid()
    names = found.stdout.partition("]")[0]
    assert found.stdout.endswith(f" [] {uid}\n")
    assert set(names.strip("[]").replace("'", "").split(", ")) <= {"PYTHONHASHSEED", "LC_CTYPE"}


async def test_nothing_of_one_run_is_left_for_the_next(runner):
    await runner.run_code("import builtins, math, sys\nbuiltins.left = math.left = sys.left = 1")
    found = await runner.run_code(
        "import math, sys\nprint(hasattr(math, 'left'), hasattr(sys, 'left'), 'left' in dir())"
    )
    assert found.stdout == "False False False\n"


@pytest.mark.parametrize("library", ["random.random()", "__import__('numpy').random.random()"])
async def test_two_runs_draw_different_numbers(library, runner):
    code = f"import random\nimport numpy\nprint({library})"
    first, second = [await runner.run_code(code) for _ in range(2)]
    assert first.stdout != second.stdout


def marked():
    return MARK.exists()


def children_of(pid):
    try:
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:  # it has ended meanwhile
        return set()


def below(root):
    found, layer = set(), {root}
    while layer:
        layer = {child for pid in layer for child in children_of(pid)}
        found |= layer
    return found


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def gone(pid):
    return not Path(f"/proc/{pid}").exists()


async def until(condition):
    """Let the event loop turn until `condition` gives something."""
    async with asyncio.timeout(60):
        while not (found := condition()):  # noqa: ASYNC110 (what is waited for is the kernel's, and sends no event)
            await asyncio.sleep(0)
    return found


async def test_a_crowd_leaves_no_process_no_descriptor_and_no_thread(runner):
    await runner.run_code("import numpy")
    processes, held, threads = below(os.getpid()), descriptors(), threading.active_count()
    programs = ["print(1)", "1 / 0", "import os; os._exit(9)", "while True: print(1)", "x = bytearray(1 << 30)"]
    found = await asyncio.gather(*(runner.run_code(programs[n % 5], timeout=2.0) for n in range(60)))
    assert [one.outcome for one in found] == ["ok", "error", "exit", "output", "memory"] * 12
    assert below(os.getpid()) == processes
    assert descriptors() == held
    assert threading.active_count() == threads


async def test_a_run_that_is_cancelled_ends_its_program(runner):
    await runner.run_code("")
    held, processes = descriptors(), below(os.getpid())
    run = asyncio.create_task(runner.run_code("import time\ntime.sleep(1000)"))
    await until(lambda: below(os.getpid()) != processes)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await runner.run_code("")
    assert await until(lambda: below(os.getpid()) == processes)  # killed at once; the zygote reaps it in its own time
    assert descriptors() == held


async def killed_in_the_middle(times):
    """Kill the zygote under a program `times` times, and then let it end."""
    before = children_of(os.getpid())
    async with open_code_runner() as runner:
        (supervisor,) = children_of(os.getpid()) - before
        run = asyncio.create_task(runner.run_code("import time\ntime.sleep(0.5)\nprint('there')"))
        for _ in range(times):
            (zygote,) = await until(lambda: [zygote for zygote in children_of(supervisor) if children_of(zygote)])
            os.kill(zygote, 9)
            await until(lambda zygote=zygote: gone(zygote))
        return await run


async def test_a_program_that_the_host_lost_is_run_again():
    assert (await killed_in_the_middle(1)).stdout == "there\n"


async def test_a_program_that_the_host_lost_twice_is_the_hosts_fault():
    with pytest.raises(HostFault, match="the zygote was lost"):
        await killed_in_the_middle(2)


HOST = """
import asyncio, sys
from spade_environments.sandbox import run_code

asyncio.run(run_code(sys.argv[1], timeout=600, wall=600))
"""


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(1000)"])
async def test_a_killed_host_leaves_no_program(code):
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, code)
    await until(lambda: len(below(host.pid)) == 3)  # supervisor, zygote, and the program or what the start tries first
    left = below(host.pid)
    host.kill()
    await host.wait()
    assert await until(lambda: all(map(gone, left)))


async def test_another_system_is_told_what_to_use(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(HostFault, match="on Linux only, and this is darwin; use the e2b backend"):
        async with open_code_runner():
            raise AssertionError("it opened")


async def test_limits_that_make_no_sense_are_refused(runner):
    for wrong in ({"timeout": 0.0}, {"timeout": float("nan")}, {"wall": -1.0}, {"memory": 1000}):
        with pytest.raises(ValueError, match="give"):
            await runner.run_code("", **wrong)
    with pytest.raises(ValueError, match="stdin is 5000001 bytes; at most 5000000"):
        await runner.run_code("", stdin="x" * 5_000_001)


async def test_too_long_a_program_is_told_and_never_run(runner):
    found = await runner.run_code("#" * 10_001)
    assert (found.outcome, found.exit_code, found.error) == ("error", None, "the program is 10001 bytes; at most 10000")


async def test_modules_can_be_added():
    async with open_code_runner(LocalCodeSettings(extra_modules=("sqlite3",))) as runner:
        assert (
            await runner.run_code("import sqlite3\nprint(sqlite3.connect(':memory:').execute('select 2').fetchone())")
        ).ok


@pytest.mark.parametrize(
    ("layers", "level"), [(("landlock", "seccomp"), "A"), (("seccomp",), "B"), (("landlock",), "C"), ((), "D")]
)
async def test_the_level_is_that_of_the_layers_that_hold(layers, level):
    async with open_code_runner(LocalCodeSettings(layers=layers)) as runner:
        assert (runner.level, (await runner.run_code("print(1)")).stdout) == (level, "1\n")


async def test_one_program_needs_no_runner():
    assert (await run_code("print(6 * 7)", timeout=2)).stdout == "42\n"


async def test_the_blocking_face_gives_the_same_and_leaves_no_thread():
    with SyncCodeRunner() as runner:
        assert [runner.run_code(f"print({n})").stdout for n in range(2)] == ["0\n", "1\n"]
    assert run_code_and_wait("print(input())", stdin="x").stdout == "x\n"
    assert "sandbox" not in [thread.name for thread in threading.enumerate()]


async def test_a_host_that_stands_still_is_not_taken_off_twice():
    async with open_code_runner() as opened:
        found = await opened.run_code("import sys\nprint(len(sys.stdin.buffer.read()))", stdin=b"x" * (48 << 20))
    assert (found.stdout, found.wall_seconds >= 0.0) == (f"{48 << 20}\n", True)
