"""The probe: about twenty things that no episode may do, attempted in real children under the real policy."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace

from spade_environments.faults import EnvironmentFault
from spade_environments.sandbox import Sandbox, open_sandbox
from spade_environments.sandbox.settings import LocalSandboxSettings
from spade_environments.spec import EnvironmentSpec, Skill
from spade_environments.types import ToolCall

__all__ = ["Attempt", "ProbeReport", "probe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One thing tried in a child.

    Attributes:
        name: what was tried.
        held: whether the sandbox held.
        outcome: `refused (...)`, the fault that ended the child, or `done`.
    """

    name: str
    held: bool
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """The sandbox's level and what it was seen to stop."""

    level: str
    attempts: tuple[Attempt, ...]

    @property
    def not_held(self) -> tuple[str, ...]:
        """Names of the attempts that the sandbox did not stop."""
        return tuple(attempt.name for attempt in self.attempts if not attempt.held)


_NOT_STOPPED = ("done", "ended (exit)")
# A program that was started in the child's place ends as an exit.
_MODULES = ("ctypes", "mmap", "os", "platform", "resource", "socket", "sys", "threading")
_SOURCE = """
from spade_environments import TextEnv
import ctypes, mmap, os, platform, resource, socket, sys, threading

libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"


def call(x86_64, aarch64, *arguments):
    if sys.platform != "linux":
        raise OSError("this system has no such call")
    if libc.syscall(aarch64 if ARM else x86_64, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def spin():
    while True:
        pass


def allocate():
    return bytearray(1 << 30)


def forge():
    os.write(3, (2).to_bytes(4, "big") + b"{}")


ATTEMPTS = {
    "open a file of the host": lambda: open("/etc/hostname").read(),
    "read the environment of another process": lambda: open(f"/proc/{os.getppid()}/environ", "rb").read(),
    "write to its own memory file": lambda: open("/proc/self/mem", "r+b"),
    "list a folder": lambda: os.listdir("/"),
    "make a folder": lambda: os.rmdir(os.mkdir("/tmp/spade_probe") or "/tmp/spade_probe"),
    "make a socket": lambda: socket.socket(),
    "make a pipe": lambda: os.pipe(),
    "fork": lambda: os.fork() or os._exit(0),
    "start a thread": lambda: threading.Thread(target=int).start(),
    "start a program": lambda: os.execv("/bin/true", ["true"]),
    "signal the parent": lambda: os.kill(os.getppid(), 0),
    "limit the parent": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU),
    "trace the parent": lambda: call(101, 117, 16, os.getppid(), 0, 0),
    "map executable memory": lambda: mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7),
    "share memory": lambda: mmap.mmap(-1, 4096),
    "make a file in memory": lambda: os.memfd_create("probe"),
    "make a user namespace": lambda: call(272, 97, 0x10000000),
    "become root": lambda: os.setresuid(0, 0, 0),
    "raise its limits": lambda: resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6)),
    "take 1 GiB": allocate,
    "spin": spin,
    "forge a frame": forge,
}


class Probe(TextEnv):
    def reset(self, seed):
        return "ready", {}

    def step(self, action):
        try:
            ATTEMPTS[action]()
        except Exception as error:
            return f"refused ({type(error).__name__})", 0.0, False, False, {}
        return "done", 0.0, False, False, {}

    def solution(self):
        return list(ATTEMPTS)
"""


async def probe(settings: LocalSandboxSettings | None = None, *, system: str = sys.platform) -> ProbeReport:
    """Try everything in children of the sandbox that `settings` describe, each attempt in its own child.

    Raises:
        HostFault: the sandbox does not come up.
    """
    settings = LocalSandboxSettings() if settings is None else settings
    modules = tuple({*settings.extra_modules, *_MODULES})
    # What spins must end soon by its CPU time, and nothing else for want of a processor.
    quick = replace(settings.limits, step_cpu=0.2, episode_cpu=min(settings.limits.episode_cpu, 2.0), wall_floor=60.0)
    async with open_sandbox(replace(settings, extra_modules=modules, limits=quick), system=system) as sandbox:
        spec = EnvironmentSpec(name="probe", source=_SOURCE, skill=Skill.ERROR_RECOVERY)
        async with await sandbox.open(spec) as env:
            await env.reset(0)
            calls = [action for action in await env.solution() if isinstance(action, ToolCall)]
        attempts = await asyncio.gather(*(_attempt(sandbox, spec, call) for call in calls))
        return ProbeReport(level=sandbox.level, attempts=tuple(attempts))


async def _attempt(sandbox: Sandbox, spec: EnvironmentSpec, call: ToolCall) -> Attempt:
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        try:
            outcome = (await env.step(call)).observation.text
        except EnvironmentFault as fault:
            outcome = f"ended ({fault.kind.value})"
    return Attempt(name=str(call.arguments["action"]), held=outcome not in _NOT_STOPPED, outcome=outcome)
