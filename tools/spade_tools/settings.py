"""Settings of the HTTP server: where it listens, whom it serves, and how much of what."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["HttpSettings"]

_ABOVE_ZERO = (
    "max_episodes", "idle_seconds", "request_seconds", "connections", "body_bytes", "calls_per_second", "burst",
    "requests", "sessions",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Limits of a server of episodes; all of them hold by default.

    Attributes:
        host: address to listen on.
        port: 0 for any free one.
        allowed_hosts: values of the Host header beyond this machine's own names and `host`, without port.
        max_episodes: live at once; one more is refused.
        idle_seconds: without a request, after which an episode is ended.
        request_seconds: within which a client must have sent the whole of a request that it has begun, and read an
            answer; then its connection is closed.
        connections: open at once, or half of the descriptors that the process may have, if those are fewer; one more
            takes the place of the one whose client has owed a request for longest.
        body_bytes: of one request.
        calls_per_second, burst: requests to one episode's URL.
        requests: at once to one episode's URL, those that wait for their turn and open streams included.
        failures_per_minute: refused credentials and unknown episodes from one address, after which
            they are refused unread.
        sessions: of the older protocol, open at once on one episode.
    """

    host: str = "127.0.0.1"
    port: int = 0
    allowed_hosts: tuple[str, ...] = ()
    max_episodes: int = 512
    idle_seconds: float = 900.0
    request_seconds: float = 60.0
    connections: int = 2048
    body_bytes: int = 2 * 1024 * 1024
    calls_per_second: float = 200.0
    burst: int = 400
    requests: int = 128
    failures_per_minute: int = 60
    sessions: int = 64

    def __post_init__(self) -> None:
        for name in _ABOVE_ZERO:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value!r}; wanted a finite number above 0")
