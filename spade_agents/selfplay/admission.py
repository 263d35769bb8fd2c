"""What stands between a design and the pool: the certificate in the run's sandbox, and novelty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate, CertificateSettings, NoveltyIndex, certify, certify_hint
from spade_environments.sandbox import Sandbox

__all__ = ["SandboxCertifier", "novelty_rule"]

CERTIFIED_AT_ONCE: Final = 8
"""Environments in the certificate at a time: it keeps a few children alive for each."""


class SandboxCertifier:
    """The certificate bound to an open sandbox, a few environments at a time."""

    def __init__(self, sandbox: Sandbox, settings: CertificateSettings) -> None:
        self._sandbox = sandbox
        self._settings = settings
        self._places = asyncio.Semaphore(CERTIFIED_AT_ONCE)

    async def certify(self, spec: EnvironmentSpec) -> Certificate:
        async with self._places:
            return await certify(spec, self._sandbox, settings=self._settings)

    async def certify_hint(self, spec: EnvironmentSpec, hint: str) -> Certificate:
        async with self._places:
            return await certify_hint(spec, hint, self._sandbox, settings=self._settings)


def novelty_rule(pool: NoveltyIndex | None) -> Callable[[EnvironmentSpec], str | None]:
    """The admission rule: unlike everything in the pool and in this set; it remembers what it lets in.

    Args:
        pool: of the environments admitted before; `None` where the rule is off.
    """
    in_this_set = None if pool is None else NoveltyIndex(threshold=pool.threshold)

    def admit(spec: EnvironmentSpec) -> str | None:
        if pool is None or in_this_set is None:
            return None
        for index in (pool, in_this_set):
            new, evidence = index.admits(spec.source)
            if not new:
                return f"{evidence}: write something of another structure"
        in_this_set.add(spec.name, spec.source)
        return None

    return admit
