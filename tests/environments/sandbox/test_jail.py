"""Foreign programs in a jail: what they may do, what they are refused, and that nothing of them is left."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from spade_environments import HostFault
from spade_environments.inside import jail_entry
from spade_environments.sandbox import JailLimits, python_folders, run_jailed
from spade_environments.sandbox.sync import run_jailed as run_jailed_and_wait

PYTHON = sys.executable
ATTEMPTS = Path(__file__).with_name("jail_attempts.py")
jailed = pytest.mark.skipif(bool(jail_entry.missing()), reason=f"this kernel lacks {jail_entry.missing()}")
pytestmark = jailed


async def run_python(code, *arguments, readable=(), **options):
    command = [PYTHON, "-I", "-c", textwrap.dedent(code), *map(str, arguments)]
    return await run_jailed(command, readable=[*python_folders(PYTHON), *readable], **{"timeout": 10.0, **options})


def alive(token):
    """Processes that were started with `token` among their arguments."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if token.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def jailer_of(process):
    """The process above it that is a jailer."""
    while b"jail" not in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0"):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[1])
    return process


def folder_of(process):
    """Where a process is at work, which is its scratch folder."""
    return str(Path(f"/proc/{process}/cwd").readlink())


def is_gone(path):
    return not os.path.lexists(path)


def left_running(token):
    """The same, after the time that the kernel may take to bury the dead."""
    until = time.monotonic() + 10
    while (found := alive(token)) and time.monotonic() < until:
        pass
    return found


async def test_a_program_reads_its_input_and_what_it_is_given_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("SPADE_TEST_SECRET", "hunter2")
    (tmp_path / "listed").write_text("from a file")
    code = "import os, sys; print(input(), open(sys.argv[1]).read(), dict(os.environ), os.listdir('.'))"
    found = await run_python(
        code, tmp_path / "listed", readable=[tmp_path], stdin="from outside", environment={"GIVEN": "yes"}
    )
    assert (found.outcome, found.exit_code, found.stderr) == ("ok", 0, "")
    assert found.stdout.startswith("from outside from a file {'GIVEN': 'yes'")
    assert found.stdout.endswith("} []\n")
    assert "hunter2" not in found.stdout


async def test_a_program_of_the_system_needs_no_folder():
    found = await run_jailed(["/bin/sh", "-c", "echo $0 $1; echo no >&2; exit 3", "a", "b c"])
    assert (found.outcome, found.exit_code, found.stdout, found.stderr) == ("exit", 3, "a b c\n", "no\n")
    assert found.error == "the program ended with status 3"


async def test_a_program_writes_in_its_scratch_folder_which_is_kept_where_it_was_given(tmp_path):
    code = """
        import os, subprocess
        os.makedirs("a/b")
        open("a/b/result", "w").write("42")
        os.rename("a/b/result", "result")
        subprocess.run(["/bin/cp", "result", "copy"], check=True)
    """
    found = await run_python(code, scratch=tmp_path)
    assert found.ok, found.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "copy", "result"]
    assert (tmp_path / "copy").read_text() == "42"


async def test_a_scratch_folder_of_its_own_is_gone_afterwards():
    found = await run_python("import os; open('x', 'w'); print(os.getcwd())")
    assert found.ok, found.stderr
    assert is_gone(found.stdout.strip())


async def test_what_a_program_leaves_in_its_scratch_folder_is_removed_however_it_lies(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("x")
    code = """
        import os, sys
        os.symlink(sys.argv[1], "file"); os.symlink(os.path.dirname(sys.argv[1]), "folder")
        os.mkfifo("pipe")
        print(os.getcwd())
        os.mkdir("closed"); os.mkdir("closed/in"); open("closed/in/x", "w")
        os.mkdir("none", 0)
        for _ in range(1200):  # deeper than this interpreter recurses
            os.mkdir("deep"); os.chdir("deep")
    """
    found = await run_python(code, kept, readable=[tmp_path])
    assert found.ok, found.stderr
    assert is_gone(found.stdout.strip())
    assert kept.read_text() == "x"


async def test_every_attempt_on_the_machine_is_refused(victims):
    outside, listed, folder = victims
    command = [PYTHON, "-I", ATTEMPTS, os.getpid(), outside, listed, folder]
    readable = [*python_folders(PYTHON), ATTEMPTS, listed.parent]
    found = await run_jailed([*map(str, command)], readable=readable, memory=1 << 28, environment={"A": "b"})
    assert found.ok, found.stderr
    told = json.loads(found.stdout)
    succeeded = {name for name, outcome in told["attempts"].items() if not outcome.startswith("refused")}
    assert succeeded == set()
    assert len(told["attempts"]) > 50
    assert told["facts"]["environment"].items() <= {"A": "b", "LC_CTYPE": "C.UTF-8"}.items()
    assert told["facts"]["user"] == (65534 if os.geteuid() == 0 else os.geteuid())
    assert told["facts"]["descriptors"] == [0, 1, 2]
    assert outside.read_text() == listed.read_text() == "kept"
    assert outside.stat().st_mode & 0o777 == listed.stat().st_mode & 0o777 == 0o666
    assert list(folder.iterdir()) == []
    assert not any(map(os.path.lexists, ["/tmp/spade_jail_mark", "/dev/shm/spade_jail_mark"]))


ENDINGS = {
    "a spin": ("while True: pass", {"timeout": 0.5}, "timeout_cpu"),
    "children that spin": ("import os\nos.fork(); os.fork()\nwhile True: pass", {"timeout": 0.5}, "timeout_cpu"),
    "children that spin one after another": (
        "import os\nwhile True:\n    if os.fork() == 0:\n        for _ in range(10**5): pass\n        os._exit(0)\n"
        "    os.wait()", {"timeout": 0.5}, "timeout_cpu",
    ),
    "a spin that ignores the signal": ("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile 1: 0",
                                       {"timeout": 0.5}, "timeout_cpu"),
    "a sleep": ("import time\ntime.sleep(1000)", {"wall": 1.0}, "timeout_wall"),
    "a program that stops itself": ("import os\nos.kill(os.getpid(), 19)", {"wall": 1.0}, "timeout_wall"),
    "memory at once": ("x = bytearray(1 << 30)", {"memory": 1 << 28}, "exit"),
    "memory of several": (
        "import os, time\nos.fork(); os.fork()\nx = bytearray(100 << 20)\ntime.sleep(1000)",
        {"memory": 1 << 28}, "memory",
    ),
    "shared memory": ("import mmap, time\nx = [mmap.mmap(-1, 1 << 20) for _ in range(400)]\n"
                      "for one in x: one.write(b'x' * (1 << 20))\ntime.sleep(1000)", {"memory": 1 << 28}, "memory"),
    "endless output": ("while True: print('x' * 1000)", {"limits": JailLimits(flood=1 << 20)}, "output"),
    "a file without end": (
        "f = open('f', 'wb')\nimport signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "while True: f.write(b'x' * 4096)", {"limits": JailLimits(flood=1 << 20)}, "output",
    ),
    "many files that are large together": (
        "for n in range(40): open(str(n), 'wb').write(b'x' * (1 << 20))", {"limits": JailLimits(scratch=20 << 20)},
        "output",
    ),
    "files that go on to grow in sum, below folders": (
        "import os\nfor n in range(10**6):\n    os.makedirs(f'a{n}/b')\n"
        "    open(f'a{n}/b/c', 'wb').write(b'x' * (1 << 16))",
        {"limits": JailLimits(scratch=16 << 20)}, "output",
    ),
    "files without number": (
        "for n in range(10**7): open(str(n), 'w')", {"limits": JailLimits(scratch_files=500)}, "output",
    ),
    "an abort": ("import os\nos.abort()", {}, "crash"),
    "its own death": ("import os\nos.kill(os.getpid(), 9)", {}, "crash"),
    "the death of everybody else": ("import os\nos.kill(-1, 9)\nos._exit(7)", {}, "exit"),
    "the death of its group": ("import os\nos.killpg(0, 9)", {}, "crash"),
    "an exception": ("1 / 0", {}, "exit"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
async def test_what_a_program_does_is_an_outcome_and_never_raised(name):
    code, options, outcome = ENDINGS[name]
    token = f"spade-jail-{os.getpid()}-{name.replace(' ', '-')}"
    found = await run_python(code, token, **options)
    assert found.outcome == outcome, (found.error, found.stderr)
    assert found.error
    assert found.cpu_seconds < options.get("timeout", 10.0) + 1.0
    assert left_running(token) == []


async def test_a_fork_bomb_is_bounded_and_nothing_of_it_is_left():
    token = f"spade-jail-bomb-{os.getpid()}"
    code = """
        import os, time
        for _ in range(1000):
            try: os.fork()
            except OSError: break
        while True: time.sleep(0.001)
    """
    found = await run_python(code, token, wall=3.0, timeout=30.0, limits=JailLimits(processes=40))
    assert found.outcome in ("timeout_wall", "timeout_cpu")
    assert left_running(token) == []


async def test_children_that_hop_from_process_to_process_are_caught():
    token = f"spade-jail-hop-{os.getpid()}"
    code = "import os\nif os.fork() == 0:\n    while True:\n        if os.fork(): os._exit(0)\nprint('out')"
    found = await run_python(code, token)
    assert (found.outcome, found.stdout) == ("ok", "out\n")
    assert left_running(token) == []


async def test_a_grandchild_that_hides_ends_with_the_program():
    token = f"spade-jail-daemon-{os.getpid()}"
    code = """
        import os, signal, sys, time
        if os.fork() == 0:
            for number in range(1, 32):
                try: signal.signal(number, signal.SIG_IGN)
                except OSError: pass
            if os.fork() == 0:
                os.close(0); os.close(1); os.close(2)
                time.sleep(1000)
            os._exit(0)
        os.wait()
        print("left")
    """
    found = await run_python(code, token)
    assert (found.outcome, found.stdout) == ("ok", "left\n")
    assert left_running(token) == []


async def test_output_is_kept_up_to_the_limit_and_said_to_be_cut():
    found = await run_python("print('x' * 5000)", limits=JailLimits(output=1000))
    assert (found.outcome, found.truncated, found.stdout, found.stdout_bytes) == ("ok", True, "x" * 1000, 5001)


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_many_at_once_leave_no_descriptor_and_no_thread():
    await run_jailed(["/bin/true"])
    held, threads = descriptors(), threading.active_count()
    found = await asyncio.gather(*(run_jailed(["/bin/sh", "-c", f"exit {n}"]) for n in range(8)))
    assert [one.exit_code for one in found] == list(range(8))
    assert (descriptors(), threading.active_count()) == (held, threads)


async def running(token):
    async with asyncio.timeout(60):
        while not (found := alive(token)):  # noqa: ASYNC110 (a process that starts sends no event)
            await asyncio.sleep(0)
    return found


async def test_a_run_that_is_cancelled_leaves_nothing():
    await run_jailed(["/bin/true"])
    held, token = descriptors(), str(10**9 + os.getpid())
    run = asyncio.create_task(run_jailed(["/bin/sleep", token]))
    (program, *_) = await running(token)
    folder = folder_of(program)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert left_running(token) == []
    assert descriptors() == held
    assert is_gone(folder)


async def test_a_killed_jailer_is_the_hosts_fault_and_takes_everything_with_it():
    token = str(2 * 10**9 + os.getpid())
    run = asyncio.create_task(run_jailed(["/bin/sh", "-c", f"/bin/sleep {token} & /bin/sleep {token}"]))
    (program, *_) = await running(token)
    os.kill(jailer_of(program), signal.SIGKILL)
    with pytest.raises(HostFault, match="the jailer was lost"):
        await run
    assert left_running(token) == []


HOST = """
import asyncio, sys
from spade_environments.sandbox import run_jailed
asyncio.run(run_jailed(["/bin/sh", "-c", f"/bin/sleep {sys.argv[1]} & /bin/sleep {sys.argv[1]}"]))
"""


def test_a_killed_host_leaves_nothing():
    token = str(3 * 10**9 + os.getpid())
    host = subprocess.Popen([sys.executable, "-c", HOST, token], start_new_session=True)
    while len(alive(token)) < 3:  # the host's own arguments hold it too
        assert host.poll() is None
    (folder,) = {folder_of(process) for process in alive(token)} - {str(Path.cwd())}
    host.kill()
    host.wait()
    assert left_running(token) == []
    until = time.monotonic() + 10
    while not is_gone(folder):
        assert time.monotonic() < until


async def test_a_program_that_cannot_start_is_told_with_the_reason(tmp_path):
    tmp_path.chmod(0o755)
    text = tmp_path / "text"
    text.write_text("no program")
    with pytest.raises(HostFault, match="text could not be started in a jail: PermissionError"):
        await run_jailed([text])
    text.chmod(0o755)
    with pytest.raises(HostFault, match=r"could not be started in a jail: OSError: .*Exec format error"):
        await run_jailed([text])


def test_another_environments_python_finds_its_own_packages(tmp_path):
    environment = tmp_path / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", environment], check=True)
    (package,) = environment.glob("lib/python*/site-packages")
    (package / "scorer.py").write_text("print('scored', __import__('sys').prefix)")
    python = environment / "bin" / "python"
    found = run_jailed_and_wait([python, "-m", "scorer"], readable=python_folders(python), timeout=10.0)
    assert found.stdout == f"scored {environment}\n", found.stderr


def test_the_blocking_face_gives_the_same():
    assert run_jailed_and_wait(["/bin/echo", "on"]).stdout == "on\n"
    assert "sandbox" not in [thread.name for thread in threading.enumerate()]
