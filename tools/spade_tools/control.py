"""The control plane: `POST /episodes`, `GET` and `DELETE /episodes/{id}`, for whoever holds the bearer token.

Both of the latter tell the whole transcript, or with `?last=N` the last N exchanges of it.
"""

from __future__ import annotations

import hmac
import re

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from spade_environments import EnvironmentFault, HostFault
from spade_tools.episode import RequestError
from spade_tools.rates import FailureLog
from spade_tools.responses import NO_EPISODE, error_response, json_response
from spade_tools.table import EpisodeTable, FullError, UnknownEnvironmentError
from spade_tools.types import EpisodeRequest

__all__ = ["ControlPlane"]

_BODY_LIMIT = 64 * 1024
_NUMBER = re.compile(r"[0-9]{1,6}")
_PATH = re.compile(r"/episodes(?:/([A-Za-z0-9_-]{1,64}))?/?")


class ControlPlane:
    """Answers requests to make, look at and end episodes; nothing an agent's client may reach.

    Args:
        table: of the live episodes.
        token: the bearer token.
        base_url: what episode URLs begin with.
        failures: counts refused tokens by address.
    """

    def __init__(self, table: EpisodeTable, *, token: str, base_url: str, failures: FailureLog) -> None:
        self._table, self._base_url, self._failures = table, base_url, failures
        self._expected = token.encode()

    async def answer(self, request: Request) -> Response:
        """The response to a request outside the data plane."""
        refused = self._refusal(request)
        if refused is not None:
            return refused
        found = _PATH.fullmatch(request.url.path)
        if found is None:
            return error_response(404, "there is /episodes and /episodes/{id}")
        identity = found[1]
        if identity is None and request.method == "POST":
            return await self._create(request)
        if identity is not None and request.method in ("GET", "DELETE"):
            return await self._tell(identity, request)
        allowed = "POST" if identity is None else "GET, DELETE"
        return error_response(405, f"{request.method} is not for {request.url.path}; use {allowed}", Allow=allowed)

    def _refusal(self, request: Request) -> Response | None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._expected)
        if known and scheme.lower() == "bearer":
            return None
        if not self._failures.add(request.client.host if request.client else ""):
            return error_response(429, "too many requests without the token; wait", **{"Retry-After": "5"})
        told = "wanted the header Authorization: Bearer TOKEN, with the token that the server printed or was given"
        return error_response(401, told, **{"WWW-Authenticate": "Bearer"})

    async def _create(self, request: Request) -> Response:
        try:
            wanted = msgspec.json.decode(await _body(request), type=_StrictRequest).request()
            live = await self._table.create(wanted)
        except _TooLargeError:
            return error_response(413, f"the body is larger than {_BODY_LIMIT} bytes")
        except UnknownEnvironmentError as error:
            return error_response(404, str(error))
        except (msgspec.MsgspecError, RequestError, RecursionError, UnicodeDecodeError) as error:
            return error_response(400, f"no episode can be made of this request: {error}")
        except FullError as error:
            return error_response(503, str(error), **{"Retry-After": "5"})
        except EnvironmentFault as fault:
            return error_response(422, f"the environment cannot be played: {fault}")
        except HostFault as fault:
            return error_response(503, f"the sandbox failed: {fault}", **{"Retry-After": "5"})
        return json_response(live.created(self._base_url), 201)

    async def _tell(self, identity: str, request: Request) -> Response:
        """The report of an episode, which DELETE ends first."""
        last = request.query_params.get("last")
        if last is not None and not _NUMBER.fullmatch(last):
            return error_response(400, f"last is {last[:20]!r}; wanted a number of exchanges")
        if request.method == "DELETE":
            report = await self._table.end(identity)
        else:
            live = self._table.get(identity)
            report = None if live is None else live.episode.report()
        if report is None:
            return error_response(404, NO_EPISODE)
        return json_response(report if last is None else report.with_last(int(last)))


class _StrictLimits(msgspec.Struct, forbid_unknown_fields=True):
    turns: int | None = None
    idle_seconds: float | None = None


class _StrictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request, refusing what it does not know."""

    environment: str
    seed: int | None = None
    mode: str = "agent"
    hint: bool = False
    limits: _StrictLimits = msgspec.field(default_factory=_StrictLimits)

    def request(self) -> EpisodeRequest:
        return msgspec.convert(msgspec.to_builtins(self), EpisodeRequest)


class _TooLargeError(Exception):
    pass


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY_LIMIT:
                raise _TooLargeError
    except ClientDisconnect as error:
        raise RequestError("the body was not sent to its end") from error
    return bytes(body)
