"""Episodes in other processes: each worker has a sandbox of its own, and the host's side of an `Env` stays here."""

from __future__ import annotations

import asyncio
import platform
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, TypeVar

from spade_agents.errors import UsageError
from spade_agents.runtime.remote import LostError, Member, answering
from spade_environments.env import Backend, EpisodeEnv
from spade_environments.faults import FaultKind, HostFault, SandboxFault
from spade_environments.limits import Limits
from spade_environments.sandbox import Sandbox, SandboxSettings, open_sandbox
from spade_environments.spec import EnvironmentSpec

__all__ = ["EpisodeWorker", "RemoteSandbox"]

R = TypeVar("R")


class EpisodeWorker:
    """What runs in a worker: the backends of its episodes, by a key that no later life of the worker gives again."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._sandbox: Sandbox | None = None
        self._episodes: dict[str, Backend] = {}

    @answering
    async def restore(self) -> tuple[str, str]:
        """Open the sandbox; its level, and where this is."""
        return (await self._opened()).level, platform.node()

    @answering
    async def begin(self, spec: EnvironmentSpec, zygote: int, level: str) -> str:
        """The key of a new episode's backend; `level` is what the sandbox must hold."""
        sandbox = await self._opened()
        if sandbox.level > level:
            told = f"the sandbox came back at level {sandbox.level}; the run is at level {level}"
            raise HostFault(FaultKind.SANDBOX_SETUP, "load", told)
        key = uuid.uuid4().hex
        self._episodes[key] = await sandbox.backend(spec, zygote=zygote)
        return key

    @answering
    async def request(self, key: str, operation: str, payload: dict[str, Any], reply: type[R]) -> R:
        """See `Backend`."""
        return await self._episode(key, operation).request(operation, payload, reply)

    @answering
    async def refuse(self, key: str, detail: str) -> SandboxFault:
        """See `Backend`."""
        return await self._episode(key, "step").refuse(detail)

    @answering
    async def end(self, key: str) -> None:
        """Close an episode, if it is still there."""
        if (backend := self._episodes.pop(key, None)) is not None:
            await backend.aclose()

    async def close(self) -> None:
        """End every process of the sandbox."""
        await self._stack.aclose()

    async def _opened(self) -> Sandbox:
        async with self._opening:
            if self._sandbox is None:
                self._sandbox = await self._stack.enter_async_context(open_sandbox(self._settings))
            return self._sandbox

    def _episode(self, key: str, phase: str) -> Backend:
        if key not in self._episodes:
            told = "the worker was started again since this episode began"
            raise HostFault(FaultKind.HOST_FAULT, phase, told)
        return self._episodes[key]


class RemoteSandbox:
    """A `Sandbox` over workers: each episode goes to the one with the fewest calls under way.

    Args:
        workers: handles of remote `EpisodeWorker`s.
        level: that each of them must hold at least.
        limits: of an episode.
        lost: told whenever a worker is lost.
    """

    def __init__(self, workers: Sequence[Any], *, level: str, limits: Limits, lost: Callable[[], None]) -> None:
        self.level, self.limits = level, limits
        self.members = [
            Member(handle, f"environment worker {number}", restore=tuple, lost=lost)
            for number, handle in enumerate(workers)
        ]
        self._live = [0] * len(self.members)

    async def start(self) -> None:
        """Wait for all workers.

        Raises:
            UsageError: one of them is at a weaker level.
            HostFault: a sandbox does not come up.
            LostError: a worker was lost.
        """
        for level, host in await asyncio.gather(*(member.ask("restore") for member in self.members)):
            if level > self.level:
                raise UsageError(
                    f"the sandbox is at level {level} on {host}, and at level {self.level} here: a run counts on the "
                    "level that it began with; `spade doctor` there shows why; take machines that are alike"
                )

    async def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> EpisodeEnv:
        """An episode in one of the workers; as a local sandbox's.

        Raises:
            EnvironmentFault: the source was refused, or broke a limit while it was loaded.
            HostFault: the worker was lost.
        """
        return await EpisodeEnv.open(spec.source, self.limits, partial(self.backend, spec, zygote=zygote))

    async def backend(self, spec: EnvironmentSpec, *, zygote: int = 0) -> Backend:
        """The episode's backend alone, before anything is loaded."""
        number = min(range(len(self.members)), key=lambda place: (self.members[place].away, self._live[place], place))
        self._live[number] += 1
        backend = _RemoteBackend(self.members[number], partial(self._ended, number))
        try:
            await backend.begin(spec, zygote, self.level)
        except BaseException:
            self._ended(number)
            raise
        return backend

    def _ended(self, number: int) -> None:
        self._live[number] -= 1


class _RemoteBackend:
    """A `Backend` whose requests go to a worker; what a lost worker leaves undone is a host fault."""

    def __init__(self, member: Member, ended: Callable[[], None]) -> None:
        self._member, self._ended = member, ended
        self._key = ""
        self._open = True

    async def begin(self, spec: EnvironmentSpec, zygote: int, level: str) -> None:
        self._key = await self._ask("load", "begin", spec, zygote, level)

    async def request(self, operation: str, payload: dict[str, Any], reply: type[R]) -> R:
        found: R = await self._ask(operation, "request", self._key, operation, payload, reply)
        return found

    async def refuse(self, detail: str) -> SandboxFault:
        fault: SandboxFault = await self._ask("step", "refuse", self._key, detail)
        return fault

    async def aclose(self) -> None:
        if not self._open:
            return
        self._open = False
        self._ended()
        with suppress(LostError):  # an episode ends with its worker
            if not self._member.away:
                await self._member.ask("end", self._key)

    async def _ask(self, phase: str, method: str, *arguments: Any) -> Any:
        try:
            return await self._member.ask(method, *arguments)
        except LostError as error:
            raise HostFault(FaultKind.HOST_FAULT, phase, str(error)) from error
