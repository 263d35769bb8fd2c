"""Settings of the sandbox: which backend, under which limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from spade_environments.limits import Limits

__all__ = ["InlineSandboxSettings", "LocalSandboxSettings", "SandboxSettings", "UntrustedSourceError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSandboxSettings:
    """One forked child for each episode, on this machine.

    Attributes:
        extra_modules: modules that designed source may import beyond the allow-list.
        layers: kernel layers to put on; leaving one out lowers the level.
        allow_degraded: whether training may go on at level C or D.
    """

    type: Literal["local"] = "local"
    limits: Limits = field(default_factory=Limits)
    extra_modules: tuple[str, ...] = ()
    layers: tuple[Literal["landlock", "seccomp"], ...] = ("landlock", "seccomp")
    allow_degraded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineSandboxSettings:
    """No isolation at all: the environment runs in this process. Catalogue environments and their variants only."""

    type: Literal["inline"] = "inline"
    limits: Limits = field(default_factory=Limits)


class UntrustedSourceError(ValueError):
    """A source that is not the catalogue's own was to run without isolation."""


SandboxSettings = LocalSandboxSettings | InlineSandboxSettings
