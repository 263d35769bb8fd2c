"""The sandbox: episodes of untrusted environment code, and single programs, each in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from spade_environments.env import Backend, EnvironmentDescription, EpisodeEnv, OrderError
from spade_environments.faults import FaultKind, HostFault
from spade_environments.limits import Limits
from spade_environments.sandbox.code import CodeRunner, open_code_runner, run_code
from spade_environments.sandbox.code_settings import CodeLimits, CodeSettings, E2BCodeSettings, LocalCodeSettings
from spade_environments.sandbox.execution import Execution, ExecutionOutcome
from spade_environments.sandbox.jail import JailLimits, python_folders, run_jailed
from spade_environments.sandbox.levels import machine_limits
from spade_environments.sandbox.settings import InlineSandboxSettings, LocalSandboxSettings, SandboxSettings
from spade_environments.spec import EnvironmentSpec

__all__ = [
    "CodeLimits",
    "CodeRunner",
    "CodeSettings",
    "E2BCodeSettings",
    "EnvironmentDescription",
    "EpisodeEnv",
    "Execution",
    "ExecutionOutcome",
    "InlineSandboxSettings",
    "JailLimits",
    "Limits",
    "LocalCodeSettings",
    "LocalSandboxSettings",
    "OrderError",
    "Sandbox",
    "SandboxSettings",
    "open_code_runner",
    "open_sandbox",
    "python_folders",
    "run_code",
    "run_jailed",
]


class Sandbox(Protocol):
    """Opens episodes.

    Attributes:
        level: A (seccomp and Landlock), B (seccomp), C (Landlock), D (rlimits and process only), or `none` (inline).
        limits: what one episode may use.
    """

    level: str
    limits: Limits

    async def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> EpisodeEnv: ...

    async def backend(self, spec: EnvironmentSpec, *, zygote: int = 0) -> Backend:
        """What an episode runs on, nothing loaded yet: for a host that opens it from another process."""
        ...


def open_sandbox(
    settings: SandboxSettings | None = None, *, trusted: frozenset[str] = frozenset(), system: str = sys.platform
) -> AbstractAsyncContextManager[Sandbox]:
    """A sandbox for `async with`; it belongs to the event loop that entered it.

    On a system other than Linux the local one has no layer of the kernel's: it is at level D, see `levels`.

    Args:
        settings: which backend, under which limits; the local one unless given.
        trusted: ids of specs that the inline backend runs besides the catalogue's. No setting: a file that is read must
            not be able to widen it.
        system: as `sys.platform` names it.

    Raises:
        HostFault: no sandbox runs on this system.

    >>> async with open_sandbox() as sandbox:                  # doctest: +SKIP
    ...     async with await sandbox.open(spec) as env:
    ...         observation = await env.reset(seed=0)
    """
    chosen = LocalSandboxSettings() if settings is None else settings
    if isinstance(chosen, InlineSandboxSettings):
        return _open_inline(chosen, trusted)
    if system == "win32":
        raise HostFault(FaultKind.SANDBOX_SETUP, "load", machine_limits(system, "").warning)
    if system != "linux":
        from spade_environments.sandbox.plain import open_plain

        return open_plain(chosen)
    from spade_environments.sandbox.local import open_local

    return open_local(chosen)


@asynccontextmanager
async def _open_inline(settings: InlineSandboxSettings, trusted: frozenset[str]) -> AsyncIterator[Sandbox]:
    from spade_environments.sandbox.inline import InlineSandbox

    yield InlineSandbox(settings, trusted)
