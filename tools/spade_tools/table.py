"""EpisodeTable: the live episodes of a server, their number, their ends, and the reaper of the idle ones."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterable

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from spade_environments import EnvironmentSpec
from spade_environments.sandbox import Sandbox
from spade_environments.wording import counted
from spade_tools.episode import RequestError, ServedEpisode, open_episode
from spade_tools.rates import TokenBucket
from spade_tools.responses import NO_EPISODE, protocol_error
from spade_tools.server import EpisodeServer
from spade_tools.settings import HttpSettings
from spade_tools.types import EpisodeCreated, EpisodeReport, EpisodeRequest

__all__ = ["EpisodeTable", "FullError", "LiveEpisode", "UnknownEnvironmentError"]

_SHORTEST_ID = 8


class FullError(RuntimeError):
    """As many episodes are live as the server holds, or it is shutting down."""


class UnknownEnvironmentError(RequestError):
    """A name or id that is not served."""


class LiveEpisode:
    """One episode and the protocol's handler at its URL."""

    def __init__(self, episode: ServedEpisode, settings: HttpSettings) -> None:
        self.episode = episode
        self.server = EpisodeServer(episode)
        self.bucket = TokenBucket(settings.calls_per_second, settings.burst)
        self.free_requests = settings.requests
        self.idle_seconds = episode.limits.idle_seconds or settings.idle_seconds
        self.manager = StreamableHTTPSessionManager(
            self.server.server,
            json_response=True,
            session_idle_timeout=self.idle_seconds,
            max_request_body_size=settings.body_bytes,
            max_sessions=settings.sessions,
        )
        self.app = RequestBodyLimitMiddleware(self._handle, settings.body_bytes)
        self._last = time.monotonic()
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the handler for requests."""
        started = asyncio.Event()
        self._task = asyncio.create_task(self._run(started))
        await started.wait()

    def created(self, base_url: str) -> EpisodeCreated:
        """What whoever made it is told; its URL begins with `base_url`."""
        episode = self.episode
        return EpisodeCreated(
            id=episode.identity,
            url=f"{base_url}/episodes/{episode.identity}/mcp",
            environment=episode.spec.name,
            environment_id=episode.spec.id,
            seed=episode.report().seed,
            max_turns=episode.own_max_turns,
        )

    def begin_request(self) -> None:
        """One more is under way: the reaper's time starts anew, as at its end."""
        self.free_requests -= 1
        self._last = time.monotonic()

    def end_request(self) -> None:
        """One less is."""
        self.free_requests += 1
        self._last = time.monotonic()

    def is_idle(self, now: float) -> bool:
        """Whether it has gone without a request for too long; an open stream is none, an action under way is."""
        return not self.episode.is_acting and now - self._last > self.idle_seconds

    async def aclose(self) -> None:
        """End the episode, its process, and every session and stream of its URL."""
        self._ended.set()
        await self.server.aclose()
        if self._task is not None:
            await self._task

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that has come in, or broken off; the episode may have ended while it was on its way."""
        if self._ended.is_set():
            await protocol_error(404, NO_EPISODE)(scope, receive, send)
        else:
            with contextlib.suppress(ClientDisconnect):
                await self.manager.handle_request(scope, receive, send)

    async def _run(self, started: asyncio.Event) -> None:
        async with self.manager.run():
            started.set()
            await self._ended.wait()


class EpisodeTable:
    """Episodes by their unguessable ids; belongs to the event loop it was made on.

    Args:
        sandbox: opens the processes; its owner closes it.
        specs: what is served.
        settings: the cap and the idle time.
    """

    def __init__(self, sandbox: Sandbox, specs: Iterable[EnvironmentSpec], settings: HttpSettings) -> None:
        self._sandbox, self._settings = sandbox, settings
        self._specs: dict[str, EnvironmentSpec] = {}
        self._live: dict[str, LiveEpisode] = {}
        self._opening = 0
        self._closed = False
        for spec in specs:
            self.offer(spec)

    def __len__(self) -> int:
        return len(self._live)

    def offer(self, spec: EnvironmentSpec) -> None:
        """Serve one more environment."""
        self._specs[spec.id] = spec

    def find(self, name: str) -> EnvironmentSpec:
        """The environment of a name, an id, or the start of an id.

        Raises:
            UnknownEnvironmentError: none is, or several are.
        """
        if name in self._specs:
            return self._specs[name]
        named = [spec for spec in self._specs.values() if spec.name == name]
        if not named and len(name) >= _SHORTEST_ID:
            named = [spec for identity, spec in self._specs.items() if identity.startswith(name)]
        if len(named) == 1:
            return named[0]
        found = f"{len(named)} environments are" if named else "no environment is"
        known = ", ".join(sorted({spec.name for spec in self._specs.values()})[:20])
        raise UnknownEnvironmentError(f"{found} named {name[:80]!r}; give an id, or one of these names: {known}")

    async def create(self, request: EpisodeRequest) -> LiveEpisode:
        """Open an episode.

        Raises:
            RequestError: what is asked for does not exist or does not fit together.
            FullError: the cap is reached.
            EnvironmentFault: the environment cannot be loaded.
            HostFault: no process could be had.
        """
        spec = self.find(request.environment)
        if self._closed or len(self._live) + self._opening >= self._settings.max_episodes:
            told = "it is shutting down" if self._closed else f"{counted(self._settings.max_episodes, 'episode')} live"
            raise FullError(f"the server takes no more episodes: {told}; end one, or wait until an idle one is reaped")
        identity = secrets.token_urlsafe(24)
        self._opening += 1
        try:
            episode = await open_episode(self._sandbox, spec, request, identity=identity)
            live = LiveEpisode(episode, self._settings)
            await live.start()
        finally:
            self._opening -= 1
        self._live[identity] = live
        if self._closed:
            await self.end(identity)
            raise FullError("the server takes no more episodes: it is shutting down")
        return live

    def get(self, identity: str) -> LiveEpisode | None:
        """A live episode; ended and foreign ids are alike unknown."""
        return self._live.get(identity)

    async def end(self, identity: str) -> EpisodeReport | None:
        """End an episode and forget it; its last report, `None` where there is none."""
        live = self._live.pop(identity, None)
        if live is None:
            return None
        await live.aclose()
        return live.episode.report()

    async def reap(self, now: float | None = None) -> int:
        """End every episode that is idle at `now` (of `time.monotonic`); how many there were."""
        now = time.monotonic() if now is None else now
        idle = [identity for identity, live in self._live.items() if live.is_idle(now)]
        await asyncio.gather(*(self.end(identity) for identity in idle))
        return len(idle)

    async def aclose(self) -> None:
        """End them all and take no more."""
        self._closed = True
        await asyncio.gather(*(self.end(identity) for identity in list(self._live)))
