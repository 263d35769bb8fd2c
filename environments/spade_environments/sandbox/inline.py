"""The inline backend: no isolation, for the catalogue's own environments."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, TypeVar

from spade_environments.env import Backend, EpisodeEnv
from spade_environments.faults import EnvironmentFault, FaultKind, HostFault, SandboxFault
from spade_environments.inside.episode import Episode
from spade_environments.inside.worker import answer_error
from spade_environments.registry import is_catalogue
from spade_environments.sandbox.settings import InlineSandboxSettings, UntrustedSourceError
from spade_environments.spec import EnvironmentSpec
from spade_environments.wire import Failed, WireError, decode

__all__ = ["InlineSandbox", "UntrustedSourceError"]

R = TypeVar("R")


class InlineSandbox:
    """Opens trusted environments in this process: no limit on time or memory holds, and no clock is replaced."""

    level = "none"

    def __init__(self, settings: InlineSandboxSettings, trusted: frozenset[str] = frozenset()) -> None:
        self.limits = settings.limits
        self._trusted = trusted

    async def open(self, spec: EnvironmentSpec, *, zygote: int = 0) -> EpisodeEnv:
        """Load an environment whose source is the catalogue's, or trusted; `zygote` makes no difference here.

        Raises:
            UntrustedSourceError: neither, whatever the spec's provenance claims.
            EnvironmentFault: the source cannot be loaded.
        """
        return await EpisodeEnv.open(spec.source, self.limits, partial(self.backend, spec, zygote=zygote))

    async def backend(self, spec: EnvironmentSpec, *, zygote: int = 0) -> Backend:
        """What answers the requests of one episode, before anything is loaded; as `open`."""
        if spec.id not in self._trusted and not is_catalogue(spec):
            raise UntrustedSourceError(
                f"the source of environment {spec.name!r} is not the catalogue's, and inline runs no other: "
                "use LocalSandboxSettings()"
            )
        return _InlineBackend()


class _InlineBackend:
    """Answers requests with an `Episode` in this process, through the same typed decoding as a child's replies."""

    def __init__(self) -> None:
        self._episode: Episode | None = None
        self._fault: SandboxFault | None = None
        self._phase = "load"

    async def request(self, operation: str, payload: dict[str, Any], reply: type[R]) -> R:
        if self._fault is not None:
            raise self._fault
        self._phase = "solution" if operation == "hidden_values" else operation
        try:
            body: dict[str, Any] = {"nonce": "", "ok": self._run(operation, payload)}
        except Exception as error:  # designed code may raise anything: told by kind, as the child would
            body = {"nonce": "", "error": answer_error(error, operation)}
        try:
            found = decode(json.dumps(body).encode(), "", reply)
        except WireError as error:
            raise await self.refuse(str(error)) from error
        if isinstance(found, Failed):
            raise self._failed(FaultKind(found.kind), found.text)
        return found

    def _run(self, operation: str, payload: dict[str, Any]) -> Any:
        if operation == "load":
            self._episode = Episode(payload["source"])
            return self._episode.describe()
        found = getattr(self._episode, operation)(**payload)
        return (
            {"actions": found}
            if operation == "solution"
            else {"values": found}
            if operation == "hidden_values"
            else found
        )

    async def refuse(self, detail: str) -> SandboxFault:
        return self._failed(FaultKind.PROTOCOL, detail)

    async def aclose(self) -> None:
        self._episode = None
        if self._fault is None:
            self._fault = HostFault(FaultKind.HOST_FAULT, "close", "the episode was closed")

    def _failed(self, kind: FaultKind, detail: str) -> SandboxFault:
        self._fault = EnvironmentFault(kind, self._phase, detail)
        return self._fault
