"""What a task awaits from a child: an awaitable that goes on with the task at once, without the event loop's queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

__all__ = ["Answer"]


class Answer:
    """A reply to come, used again for every request of a child; one task at a time awaits it.

    It speaks asyncio's protocol for futures (`_asyncio_future_blocking`, see `asyncio.isfuture`). A future would queue
    the task behind a handle, at several microseconds a step; `deliver` runs it there and then.

    Args:
        loop: the event loop.
        when_cancelled: called when the task that waits is cancelled.
    """

    __slots__ = (
        "_asyncio_future_blocking", "_cancelled", "_context", "_frame", "_loop", "_wake", "_when_cancelled", "pending",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, when_cancelled: Callable[[], None]) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop  # read by the task, as there is no get_loop to call
        self._when_cancelled = when_cancelled
        self._frame: bytes | None = None
        self._wake: Callable[[Any], object] | None = None
        self._context = Context()
        self._cancelled: asyncio.CancelledError | None = None
        self.pending = False
        """Set when a request goes out, which must be awaited at once; cleared here."""

    def deliver(self, frame: bytes) -> None:
        """The reply; a task that waits goes on inside this call, which then must be made outside every task."""
        self.pending, self._frame = False, frame
        wake, self._wake = self._wake, None
        if wake is not None:
            self._context.run(wake, self)

    def give_up(self) -> None:
        """There will be no reply: the task goes on with `None`, at the event loop's next turn."""
        if self.pending:
            self.pending, self._frame = False, None
            self._wake_later()

    def cancel(self, msg: str | None = None) -> bool:
        """Called by the task that waits, when somebody cancels it."""
        if not self.pending:
            return False
        self.pending = False
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._wake_later()
        self._when_cancelled()
        return True

    def done(self) -> bool:
        """Whether nobody need wait any more."""
        return not self.pending

    def result(self) -> None:
        """Called by the task that waits, as it goes on."""
        if self._cancelled is not None:
            raise self._cancelled

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context) -> None:
        """Called by the task that begins to wait."""
        self._wake, self._context = wake, context

    def __await__(self) -> Generator[Answer, None, bytes | None]:
        if self.pending:
            self._asyncio_future_blocking = True
            yield self
        return self._frame

    def _wake_later(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            self._loop.call_soon(wake, self, context=self._context)
