"""The local sandbox: each episode in its own child, forked from a clean zygote on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from spade_environments.env import EpisodeEnv
from spade_environments.faults import EnvironmentFault, FaultKind, HostFault
from spade_environments.sandbox.child import Child
from spade_environments.sandbox.numpy_folder import mentions_numpy
from spade_environments.sandbox.process import Supervisor, ZygoteKind
from spade_environments.sandbox.settings import LocalSandboxSettings
from spade_environments.sandbox.switchboard import Switchboard
from spade_environments.sandbox.watch import Watch
from spade_environments.spec import EnvironmentSpec

__all__ = ["LocalSandbox", "open_local"]


class LocalSandbox:
    """Opens episodes; many live at once on one event loop, without a thread."""

    def __init__(self, settings: LocalSandboxSettings, supervisor: Supervisor) -> None:
        self.limits = settings.limits
        self._supervisor = supervisor
        self._watch = Watch(settings.limits)
        self._switchboard = Switchboard()
        self._closed = False
        self.level = "D"

    async def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> EpisodeEnv:
        """A fresh child with the source of `spec` loaded.

        Args:
            spec: what to load.
            zygote: 0 or 1, started apart, with hash seeds 0 and 1.

        Raises:
            EnvironmentFault: the source was refused, or broke a limit while it was loaded.
            HostFault: the zygote was lost.
            ValueError: another zygote.
        """
        return await EpisodeEnv.open(spec.source, self.limits, partial(self.backend, spec, zygote=zygote))

    async def backend(self, spec: EnvironmentSpec, *, zygote: int = 0) -> Child:
        """The child alone, before anything is loaded; as `open`."""
        if zygote not in (0, 1):
            raise ValueError(f"there is no zygote {zygote!r}; use 0 or 1")
        size = len(spec.source.encode(errors="surrogatepass"))
        if size > self.limits.source:
            told = f"the source is {size} bytes; at most {self.limits.source}"
            raise EnvironmentFault(FaultKind.REJECT, "load", told)
        return await self._child(ZygoteKind(zygote, mentions_numpy(spec.source)))

    async def _child(self, kind: ZygoteKind) -> Child:
        if self._closed:
            raise RuntimeError("the sandbox is closed; open another one")
        zygote = await self._supervisor.zygote(kind)
        try:
            child = Child(zygote, self.limits, self._watch, self._switchboard)
        except OSError as error:
            told = f"no channel for another episode: {error.strerror}; raise the limit on open files (ulimit -n)"
            raise HostFault(FaultKind.HOST_FAULT, "load", told) from error
        try:
            level = await child.start()
        except BaseException:
            await child.aclose()
            raise
        if level != self.level:
            await child.aclose()
            told = f"a child came up at level {level}; the sandbox is at level {self.level}"
            raise HostFault(FaultKind.SANDBOX_SETUP, "load", told)
        return child

    async def probe(self) -> None:
        """Fork one child and take its level for the sandbox's.

        Raises:
            HostFault: it could not be forked or shut in.
        """
        child = Child(await self._supervisor.zygote(ZygoteKind(0, False)), self.limits, self._watch, self._switchboard)
        try:
            self.level = await child.start()
        finally:
            await child.aclose()

    def close(self) -> None:
        """End every episode that still lives, with a host fault to whoever waits for it."""
        self._closed = True
        self._watch.close()
        self._switchboard.close()


@asynccontextmanager
async def open_local(settings: LocalSandboxSettings) -> AsyncIterator[LocalSandbox]:
    """Start a supervisor and its first zygote; end every process on the way out."""
    limits = settings.limits
    options = {
        "extra_modules": list(settings.extra_modules),
        "layers": list(settings.layers),
        "memory_bytes": limits.memory,
        "cpu_seconds": limits.kernel_cpu,
    }
    supervisor = Supervisor(options)
    sandbox = LocalSandbox(settings, supervisor)
    try:
        await sandbox.probe()
        yield sandbox
    finally:
        sandbox.close()
        await supervisor.aclose()
