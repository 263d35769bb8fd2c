"""Settings of code execution: which backend runs a program, under which limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["CodeLimits", "CodeSettings", "E2BCodeSettings", "LocalCodeSettings"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """What every run may use; CPU time and memory of one run are arguments of `run_code`.

    Attributes:
        wall_factor: the wall limit as a multiple of the CPU limit.
        wall_floor: and its least, in seconds: machine load must not look like a slow program.
        output: bytes kept of each of stdout and stderr.
        flood: bytes of one stream at which the program is ended.
        code: bytes of source.
        stdin: bytes of input.
        total_memory: resident bytes of all live programs together.
    """

    wall_factor: float = 10.0
    wall_floor: float = 10.0
    output: int = _MIB
    flood: int = 4 * _MIB
    code: int = _MIB
    stdin: int = 64 * _MIB
    total_memory: int = 4096 * _MIB

    def wall(self, timeout: float) -> float:
        """Wall seconds of a run that may use `timeout` seconds of CPU."""
        return max(self.wall_floor, self.wall_factor * timeout)


def _four_a_core() -> int:
    return 4 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCodeSettings:
    """One forked child for each run, on this machine, from zygotes that serve nothing else.

    Attributes:
        extra_modules: modules that a program may import beyond the allow-list.
        layers: kernel layers to put on; leaving one out lowers the level.
        parallel: programs that run at once, the others wait. Few enough a core that the wall limit, ten times the CPU
            limit, is not reached by load alone.
    """

    type: Literal["local"] = "local"
    limits: CodeLimits = field(default_factory=CodeLimits)
    extra_modules: tuple[str, ...] = ()
    layers: tuple[Literal["landlock", "seccomp"], ...] = ("landlock", "seccomp")
    parallel: int = field(default_factory=_four_a_core)


@dataclass(frozen=True, slots=True, kw_only=True)
class E2BCodeSettings:
    """One sandbox of the E2B service for each run; needs the extra `sandbox` and a key.

    Attributes:
        api_key: the key; from `E2B_API_KEY` when empty.
        template: which of the service's templates; its code interpreter when empty.
        api_url: another address of the service's API.
        sandbox_url: another address of the sandboxes themselves.
        call_timeout: seconds that any call to the service may take, beyond the time of the program itself. The service
            is asked to end a sandbox by itself once all its calls must be over.
        parallel: sandboxes at once, the other runs wait.
    """

    type: Literal["e2b"] = "e2b"
    limits: CodeLimits = field(default_factory=CodeLimits)
    api_key: str = field(default="", repr=False)
    template: str = ""
    api_url: str = ""
    sandbox_url: str = ""
    call_timeout: float = 30.0
    parallel: int = 16


CodeSettings = LocalCodeSettings | E2BCodeSettings
