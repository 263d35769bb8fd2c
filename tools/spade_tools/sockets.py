"""A client's connection that knows since when its client owes something, so that those who never give it are closed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "close_overdue"]

_logger = logging.getLogger(__name__)
_logger.setLevel(logging.ERROR)  # what strangers send is no news: a line for each would fill the terminal and the disk


class Connection(H11Protocol):
    """uvicorn's own limits neither how long a client may take to send a request nor how long to read the answer.

    A trickle counts as little as silence: what is timed is the whole request, from its first byte to its last. Between
    requests uvicorn's own limit holds. Where there are more than `limit` connections, the one whose client has owed a
    request for longest makes room, so that nobody keeps others out by holding on to many.
    """

    def __init__(self, *arguments: Any, limit: int, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.logger = _logger
        self._limit = limit

    _owed_since: float | None = None
    _unread = 0
    _unread_since = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._limit:
            self._make_room()
        self._owed_since = time.monotonic()

    def data_received(self, data: bytes) -> None:
        if self._owed_since is None:
            self._owed_since = time.monotonic()
        super().data_received(data)
        if not self._owes():
            self._owed_since = None

    def on_response_complete(self) -> None:
        super().on_response_complete()  # it may begin with a request that has come in part meanwhile
        self._owed_since = time.monotonic() if self._owes() else None

    def is_overdue(self, now: float, seconds: float) -> bool:
        """Whether a request, or the reading of an answer, has taken so long; to be asked now and then."""
        unread = self.transport.get_write_buffer_size()
        if self._unread == 0 or unread < self._unread:
            self._unread_since = now
        self._unread = unread
        if unread and now - self._unread_since > seconds:
            return True
        return self._owed_since is not None and now - self._owed_since > seconds

    def _make_room(self) -> None:
        owing = [other for other in self.connections if isinstance(other, Connection) and other._owed_since is not None]
        slowest = min(owing, key=lambda other: other._owed_since or 0.0, default=self)
        self.connections.discard(slowest)  # at once: it is told of its end at the event loop's next turn
        slowest.transport.abort()

    def _owes(self) -> bool:
        """Whether a request has come in part: its head, or its head and not all of its body."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))


def close_overdue(connections: Iterable[Any], seconds: float, now: float | None = None) -> int:
    """Close the connections whose clients have owed something for more than so long; how many there were."""
    now = time.monotonic() if now is None else now
    overdue = [connection for connection in connections if connection.is_overdue(now, seconds)]
    for connection in overdue:
        connection.transport.abort()
    return len(overdue)
