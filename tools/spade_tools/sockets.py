"""A client's connection that remembers when it was last heard from, so that half-open ones can be closed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "close_silent"]


class Connection(H11Protocol):
    """uvicorn's own has no limit on how long a client may take to send a request."""

    heard = 0.0

    def connection_made(self, transport: Any) -> None:
        self.heard = time.monotonic()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.heard = time.monotonic()
        super().data_received(data)

    def is_silent(self, now: float, seconds: float) -> bool:
        """Whether a request that is due has not come for so long; one that is being answered is waited for."""
        answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return not answering and now - self.heard > seconds


def close_silent(connections: Iterable[Any], seconds: float, now: float | None = None) -> int:
    """Close the connections whose clients have been silent for so long; how many there were."""
    now = time.monotonic() if now is None else now
    silent = [connection for connection in connections if connection.is_silent(now, seconds)]
    for connection in silent:
        connection.transport.abort()
    return len(silent)
