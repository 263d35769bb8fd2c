"""Episodes over HTTP: the data plane at `/episodes/{id}/mcp`, the control plane beside it, and the server around both.

>>> async with open_sandbox() as sandbox, serve_http(specs, sandbox) as server:    # doctest: +SKIP
...     created = await server.create(EpisodeRequest(environment="ticket_desk", seed=0))
...     print(created.url)                                   # for any MCP client
...     print(server.report(created.id).reward)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from spade_environments import EnvironmentSpec
from spade_environments.sandbox import Sandbox
from spade_tools.control import ControlPlane
from spade_tools.rates import FailureLog
from spade_tools.responses import NO_EPISODE, error_response, protocol_error
from spade_tools.settings import HttpSettings
from spade_tools.sockets import Connection, close_overdue
from spade_tools.table import EpisodeTable
from spade_tools.types import EpisodeCreated, EpisodeReport, EpisodeRequest

__all__ = ["EpisodeApp", "HttpServer", "serve_http"]

_PREFIX, _SUFFIX = "/episodes/", "/mcp"
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_SWEEP_SECONDS = 5.0
_SHUTDOWN_SECONDS = 5
_BACKLOG = 2048
_logger = logging.getLogger(__name__)


class EpisodeApp:
    """The ASGI application: checks each request, then hands it to its episode or to the control plane."""

    def __init__(self, table: EpisodeTable, settings: HttpSettings, *, token: str, base_url: str) -> None:
        self.table = table
        self._settings = settings
        self._failures = FailureLog(settings.failures_per_minute)
        self._control = ControlPlane(table, token=token, base_url=base_url, failures=self._failures)
        self._hosts = frozenset(map(str.lower, (*_OWN_NAMES, settings.host, *settings.allowed_hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, send)
            return
        path = scope["path"].removesuffix("/")
        if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
            await self._play(path[len(_PREFIX) : -len(_SUFFIX)], scope, receive, send)
        else:
            await (await self._control.answer(Request(scope, receive)))(scope, receive, send)

    async def _play(self, identity: str, scope: Scope, receive: Receive, send: Send) -> None:
        live = self.table.get(identity)
        if live is None:
            told, status = NO_EPISODE, 404
            if not self._failures.add(_address(scope)):
                told, status = "too many requests for episodes that are not there; wait", 429
            await protocol_error(status, told)(scope, receive, send)
        elif not live.bucket.take():
            await protocol_error(429, "too many requests to this episode; wait a second")(scope, receive, send)
        elif not live.free_requests:
            await protocol_error(429, "too many requests at once to this episode; wait for some")(scope, receive, send)
        else:
            live.begin_request()
            try:
                await live.app(scope, receive, send)
            finally:
                live.end_request()

    def _refusal(self, scope: Scope) -> Response | None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if _without_port(host) not in self._hosts:
            return error_response(421, f"this server does not answer to the host {host[:80]!r}")
        origin = headers.get(b"origin")
        if (
            origin is not None
            and _without_port(origin.decode("latin-1").lower().partition("://")[2]) not in self._hosts
        ):
            return error_response(403, "requests of other sites' pages are refused")
        return None


class HttpServer:
    """A running server, for the process that started it: the control plane without a wire.

    Attributes:
        url: where it listens, such as `http://127.0.0.1:8123`.
        token: the bearer token of the control plane.
        table: of the live episodes.
    """

    def __init__(self, table: EpisodeTable, *, url: str, token: str, connections: set[Connection]) -> None:
        self.table, self.url, self.token = table, url, token
        self._connections = connections

    @property
    def connections(self) -> int:
        """Open connections of clients."""
        return len(self._connections)

    def offer(self, spec: EnvironmentSpec) -> None:
        """Serve one more environment."""
        self.table.offer(spec)

    async def create(self, request: EpisodeRequest) -> EpisodeCreated:
        """What `POST /episodes` does; raises what `EpisodeTable.create` raises."""
        return (await self.table.create(request)).created(self.url)

    def report(self, identity: str) -> EpisodeReport | None:
        """What `GET /episodes/{id}` does."""
        live = self.table.get(identity)
        return None if live is None else live.episode.report()

    async def end(self, identity: str) -> EpisodeReport | None:
        """What `DELETE /episodes/{id}` does: the last report."""
        return await self.table.end(identity)


@contextlib.asynccontextmanager
async def serve_http(
    specs: Iterable[EnvironmentSpec],
    sandbox: Sandbox,
    *,
    settings: HttpSettings | None = None,
    token: str | None = None,
) -> AsyncIterator[HttpServer]:
    """Serve episodes of `specs` on this event loop until the block is left; then every episode is ended.

    Args:
        specs: environments that can be asked for; `HttpServer.offer` adds to them.
        sandbox: opens the episodes' processes; stays open.
        settings: where, and within which limits.
        token: of the control plane; drawn at random unless given.

    Raises:
        OSError: the port cannot be had.
    """
    chosen = settings or HttpSettings()
    token = secrets.token_urlsafe(32) if token is None else token
    table = EpisodeTable(sandbox, specs, chosen)
    with _listen(chosen) as listener:
        port = listener.getsockname()[1]
        host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
        url = f"http://{host}:{port}"
        app = EpisodeApp(table, chosen, token=token, base_url=url)
        connection: Any = partial(Connection, limit=_most_connections(chosen))
        config = uvicorn.Config(
            app, http=connection, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, timeout_keep_alive=75, timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )  # fmt: skip
        runner = _Runner(config)
        serving = asyncio.create_task(runner.serve(sockets=[listener]))
        sweeping = asyncio.create_task(_sweep(table, runner, chosen))
        try:
            yield HttpServer(table, url=url, token=token, connections=runner.server_state.connections)  # type: ignore[arg-type]
        finally:
            sweeping.cancel()
            await table.aclose()
            runner.should_exit = True
            await serving


class _Runner(uvicorn.Server):
    """Leaves signals to the program it runs in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _sweep(table: EpisodeTable, runner: _Runner, settings: HttpSettings) -> None:
    """The reaper: ends idle episodes and closes overdue connections, over and over."""
    while True:
        await asyncio.sleep(min(_SWEEP_SECONDS, settings.idle_seconds / 4, settings.request_seconds / 4))
        try:
            await table.reap()
            close_overdue(runner.server_state.connections, settings.request_seconds)
        except Exception:
            _logger.exception("the reaper failed; it goes on")


def _most_connections(settings: HttpSettings) -> int:
    """At most half of the descriptors that this process may have: the episodes need some too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return settings.connections
    return min(settings.connections, descriptors // 2)


def _listen(settings: HttpSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named because asyncio sends small answers without delay on no other sockets.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)  # at once, so that a client may connect before the server's task has run
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
