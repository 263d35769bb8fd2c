"""ControlClient: the control plane of a server elsewhere, for the trainer who holds its token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar

import httpx2
import msgspec

from spade_environments import FaultKind, HostFault
from spade_environments.validation import clean_text
from spade_tools.episode import RequestError
from spade_tools.fault_text import read_fault
from spade_tools.table import FullError, UnknownEnvironmentError
from spade_tools.types import EpisodeCreated, EpisodeReport, EpisodeRequest

__all__ = ["ControlClient", "open_control"]

R = TypeVar("R")
_TOLD = 400
_UNPLAYABLE = "the environment cannot be played: "
_BUSY = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)


class ControlClient:
    """`EpisodeControl` over HTTP; made by `open_control`.

    Args:
        http: sends the token with each request.
        url: of the server; episode URLs begin with it, whatever the server takes its own name for.
    """

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http, self._url = http, url.rstrip("/")

    async def create(self, request: EpisodeRequest) -> EpisodeCreated:
        """Make an episode.

        Raises:
            RequestError: it cannot be made as asked for, or the token is refused.
            FullError: the server takes no more of them, or of requests, for now.
            EnvironmentFault: the environment cannot be loaded.
            HostFault: the server cannot be reached, or answers what it should not.
        """
        answer = await self._ask("POST", "/episodes", content=msgspec.json.encode(request))
        if answer.status_code != HTTPStatus.CREATED:
            raise _refusal(answer)
        created = _decoded(answer, EpisodeCreated)
        return replace(created, url=f"{self._url}/episodes/{created.id}/mcp")

    async def report(self, identity: str, *, last: int | None = None) -> EpisodeReport | None:
        """How an episode stands, `None` where there is none; its transcript whole, or the `last` exchanges of it.

        Raises:
            RequestError: the token is refused.
            HostFault: the server cannot be reached, or answers what it should not.
        """
        return await self._told_of("GET", identity, last)

    async def end(self, identity: str) -> EpisodeReport | None:
        """End an episode; its last report, without a transcript.

        Raises:
            RequestError: the token is refused.
            HostFault: the server cannot be reached, or answers what it should not.
        """
        return await self._told_of("DELETE", identity, 0)

    async def _told_of(self, method: str, identity: str, last: int | None) -> EpisodeReport | None:
        parameters = {} if last is None else {"last": str(last)}
        answer = await self._ask(method, f"/episodes/{identity}", params=parameters)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        if answer.status_code != HTTPStatus.OK:
            raise _refusal(answer)
        return _decoded(answer, EpisodeReport)

    async def _ask(
        self, method: str, path: str, *, content: bytes | None = None, params: dict[str, str] | None = None
    ) -> httpx2.Response:
        try:
            return await self._http.request(method, self._url + path, content=content, params=params)
        except httpx2.TimeoutException as error:
            raise _broken(FaultKind.TIMEOUT_WALL, f"did not answer in time ({type(error).__name__})") from error
        except httpx2.HTTPError as error:
            raise _broken(FaultKind.HOST_FAULT, f"cannot be reached: {clean_text(str(error))[:_TOLD]}") from error


@asynccontextmanager
async def open_control(url: str, token: str, *, seconds: float = 120.0) -> AsyncIterator[ControlClient]:
    """Speak to the control plane of the server at `url`.

    The token goes over the wire as it is: where that leaves this machine, use https (a proxy that ends it) or a tunnel.

    Args:
        url: such as `http://127.0.0.1:8765`, without a path of episodes.
        token: that the server printed or was given.
        seconds: wall-clock limit of each request.
    """
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=seconds, follow_redirects=False) as http:
        yield ControlClient(http, url)


def _refusal(answer: httpx2.Response) -> Exception:
    """What an answer means that is not the one hoped for."""
    told = _reason(answer)
    match answer.status_code:
        case HTTPStatus.NOT_FOUND:
            return UnknownEnvironmentError(told)
        case HTTPStatus.BAD_REQUEST | HTTPStatus.UNAUTHORIZED | HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return RequestError(told)
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            return read_fault(told.removeprefix(_UNPLAYABLE), "load", environments=True)
        case status if status in _BUSY:
            return FullError(told)
    return _broken(FaultKind.PROTOCOL, f"answered with status {answer.status_code}: {told}")


def _reason(answer: httpx2.Response) -> str:
    try:
        return clean_text(msgspec.json.decode(answer.content, type=dict[str, str])["error"])
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError):
        return f"{clean_text(answer.text)[:_TOLD]!r}"


def _decoded(answer: httpx2.Response, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(FaultKind.PROTOCOL, f"answered what cannot be read: {error}") from error


def _broken(kind: FaultKind, told: str) -> HostFault:
    return HostFault(kind, "control", f"the episodes' server {told}")
