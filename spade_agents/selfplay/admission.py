"""What stands between a design and the pool: the certificate in the run's sandbox, and novelty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from spade_agents.selfplay.resources import Resources
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate, certify, certify_hint

__all__ = ["SandboxCertifier", "novelty_rule"]

CERTIFIED_AT_ONCE: Final = 8
"""Environments in the certificate at a time: it keeps a few children alive for each."""


class SandboxCertifier:
    """The certificate bound to the run's sandbox, a few environments at a time."""

    def __init__(self, resources: Resources) -> None:
        self._sandbox = resources.sandbox
        self._settings = resources.settings.certificate
        self._places = asyncio.Semaphore(CERTIFIED_AT_ONCE)

    async def certify(self, spec: EnvironmentSpec) -> Certificate:
        async with self._places:
            return await certify(spec, self._sandbox, settings=self._settings)

    async def certify_hint(self, spec: EnvironmentSpec, hint: str) -> Certificate:
        async with self._places:
            return await certify_hint(spec, hint, self._sandbox, settings=self._settings)


def novelty_rule(resources: Resources) -> Callable[[EnvironmentSpec], str | None]:
    """The admission rule: unlike everything in the pool and in this set; it remembers what it lets in."""
    in_this_set = resources.empty_novelty()

    def admit(spec: EnvironmentSpec) -> str | None:
        if resources.novelty is None or in_this_set is None:
            return None
        for index in (resources.novelty, in_this_set):
            new, evidence = index.admits(spec.source)
            if not new:
                return f"{evidence}: write something of another structure"
        in_this_set.add(spec.name, spec.source)
        return None

    return admit
