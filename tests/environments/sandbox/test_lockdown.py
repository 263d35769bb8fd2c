"""The kernel's layers by themselves: every module a hostile program could wish for is there, and none of it helps."""

import os
import platform

import pytest
import pytest_asyncio

from spade_environments import EnvironmentFault, FaultKind, ToolCall
from spade_environments.inside import landlock, seccomp
from spade_environments.sandbox import LocalSandboxSettings, open_sandbox

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not seccomp.available() or not landlock.version(), reason="this kernel has not both layers"),
]
ACT = ToolCall(name="act", arguments={"action": "x"})
WIDE = ("ctypes", "fcntl", "mmap", "multiprocessing", "os", "resource", "select", "signal", "socket", "subprocess",
        "sys", "tempfile", "threading")  # fmt: skip
TOP = f"import {', '.join(WIDE)}\nlibc = ctypes.CDLL(None, use_errno=True)\n" + (
    "def call(*words):\n"
    "    found = libc.syscall(*words)\n"
    "    if found < 0: raise OSError(ctypes.get_errno(), 'refused')\n"
    "    return found\n"
)
ARM = platform.machine() == "aarch64"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wide():
    async with open_sandbox(LocalSandboxSettings(extra_modules=WIDE)) as opened:
        yield opened


async def attempt(sandbox, spec):
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        return (await env.step(ACT)).observation.text


REFUSED = {
    "read a file": "open('/etc/hostname').read()",
    "read its own memory map": "open('/proc/self/maps').read()",
    "read the environment of its parent": "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
    "list a folder": "os.listdir('/')",
    "see whether a file exists": "os.stat('/etc/hostname')",
    "open relative to a descriptor": "os.open('x', os.O_RDONLY, dir_fd=3)",
    "write a file": "open('/tmp/spade_probe_mark', 'w')",
    "make a folder": "os.mkdir('/tmp/spade_probe_mark')",
    "remove a file": "os.unlink('/etc/hostname')",
    "link a file": "os.link('/etc/hostname', '/tmp/spade_probe_mark')",
    "make a temporary file": "tempfile.TemporaryFile()",
    "make a file in memory": "os.memfd_create('x')",
    "make a socket": "socket.socket()",
    "make a pair of sockets": "socket.socketpair()",
    "make a pipe": "os.pipe()",
    "duplicate the channel": "os.dup(3)",
    "pass descriptors": "socket.socket(fileno=3).recvmsg(1, 100)",
    "make the channel non-blocking": "os.set_blocking(3, False)",
    "fork": "os.fork()",
    "start a program": "os.execv('/bin/true', ['true'])",
    "start a subprocess": "subprocess.run(['/bin/true'], check=True)",
    "start a thread": "threading.Thread(target=print).start()",
    "start a pool": "multiprocessing.Process(target=print).start()",
    "map executable memory": "mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 5)",
    "share memory, which is not counted as its own": "mmap.mmap(-1, 4096)",
    "make memory executable": "call(10 if not ARM else 226, 0, 4096, 7)",
    "signal its parent": "os.kill(os.getppid(), 0)",
    "signal its group": "os.killpg(0, 0)",
    "signal every process": "os.kill(-1, 0)",
    "raise its limits": "resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))",
    "be dumpable again": "call(157 if not ARM else 167, 4, 1, 0, 0, 0)",
    "outlive its parent": "call(157 if not ARM else 167, 1, 0, 0, 0, 0)",
    "become root": "os.setresuid(0, 0, 0)",
    "change its priority": "os.nice(-1)",
    "leave its session": "os.setsid()",
    "name the machine": "os.uname()",
    "wait with epoll": "select.epoll()",
    "load a library": "ctypes.CDLL('libanl.so.1')",
    "import a module that is not loaded": "__import__('sqlite3')",
}


def tried(name):
    """A step that tells whether the attempt was refused."""
    return (
        f"ARM = {ARM}\ntry:\n    {REFUSED[name]}\n    said = 'done'\n"
        "except (OSError, RuntimeError, ImportError, ValueError): said = 'refused'\nreturn said, 0.0, False, False, {}"
    )


@pytest.mark.parametrize("name", REFUSED)
async def test_an_attempt_on_the_machine_is_refused(name, wide, make_spec, make_text_env):
    assert await attempt(wide, make_spec(make_text_env(top=TOP, step=tried(name)))) == "refused"


KILLED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "pidfd_open": (434, 434),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "kexec_load": (246, 104),
}


@pytest.mark.parametrize("name", KILLED)
async def test_a_dangerous_call_kills_and_is_named(name, wide, make_spec, make_text_env):
    spec = make_spec(make_text_env(top=TOP, step=f"call({KILLED[name][ARM]}, 0, 0, 0, 0, 0)"))
    with pytest.raises(EnvironmentFault, match="system call that is not allowed") as caught:
        await attempt(wide, spec)
    assert caught.value.kind is FaultKind.SYSCALL


async def test_reading_anothers_limits_kills(wide, make_spec, make_text_env):
    step = "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)"
    with pytest.raises(EnvironmentFault) as caught:
        await attempt(wide, make_spec(make_text_env(top=TOP, step=step)))
    assert caught.value.kind is FaultKind.SYSCALL


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has another table of calls")
async def test_the_other_table_of_calls_of_this_machine_kills(wide, make_spec, make_text_env):
    step = f"call({0x40000000 + 39})\nreturn 'done', 0.0, False, False, {{}}"
    with pytest.raises(EnvironmentFault) as caught:
        await attempt(wide, make_spec(make_text_env(top=TOP, step=step)))
    assert caught.value.kind is FaultKind.SYSCALL


@pytest.mark.parametrize(
    ("layers", "level"),
    [(("landlock", "seccomp"), "A"), (("seccomp",), "B"), (("landlock",), "C"), ((), "D")],
)
async def test_the_level_is_that_of_the_layers_that_hold(layers, level):
    async with open_sandbox(LocalSandboxSettings(layers=layers)) as sandbox:
        assert sandbox.level == level


async def test_landlock_alone_refuses_files_and_signals(make_spec, make_text_env):
    settings = LocalSandboxSettings(layers=("landlock",), extra_modules=WIDE)
    said = []
    async with open_sandbox(settings) as sandbox:
        for name in ("read a file", "write a file", "list a folder", "signal its parent"):
            said.append(await attempt(sandbox, make_spec(make_text_env(top=TOP, step=tried(name)))))
    assert said == ["refused"] * 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be dropped")
async def test_root_is_dropped(wide, make_spec, make_text_env):
    step = "return repr((os.getuid(), os.geteuid(), os.getgid())), 0.0, False, False, {}"
    assert await attempt(wide, make_spec(make_text_env(top=TOP, step=step))) == "(65534, 65534, 65534)"


async def test_a_child_holds_its_channel_and_nothing_else(make_spec, make_text_env):
    step = "return repr([n for n in range(64) if valid(n)]), 0.0, False, False, {}"
    top = (
        TOP
        + "def valid(n):\n    try: fcntl.fcntl(n, fcntl.F_GETFD)\n    except OSError: return False\n    return True\n"
    )
    kept = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(kept, True)
    try:
        async with open_sandbox(LocalSandboxSettings(extra_modules=WIDE)) as sandbox:
            assert await attempt(sandbox, make_spec(make_text_env(top=top, step=step))) == "[0, 1, 2, 3]"
    finally:
        os.close(kept)
