"""Work that is carried through even if its caller is cancelled, without a task of its own unless that comes to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

__all__ = ["Carried"]

T = TypeVar("T")


class Carried(Generic[T]):
    """Await it once: `work` runs in the caller's task, and in one of its own from the moment the caller is cancelled.

    A task and a shield for every call would cost as much as a sandbox's share of a step.

    Args:
        work: not begun; nothing in it may hold on to the task that it runs in.
    """

    __slots__ = ("_work", "rest")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.rest: asyncio.Task[T] | None = None
        """What is left of the work after a cancellation."""

    def __await__(self) -> Generator[Any, Any, T]:
        work, loop = self._work, asyncio.get_running_loop()
        try:
            while True:
                awaited = work.send(None)
                try:
                    yield None if awaited is None else _Relay(loop, awaited)
                except asyncio.CancelledError:
                    self.rest = loop.create_task(_go_on(work, awaited))
                    raise
                except BaseException:
                    work.close()
                    raise
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def _go_on(work: Coroutine[Any, Any, T], awaited: Any) -> T:
    return await _Rest(work, awaited)


class _Rest(Generic[T]):
    """The rest of a work that waits for a future."""

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._work, self._awaited = work, awaited

    def __await__(self) -> Generator[Any, Any, T]:
        awaited = self._awaited
        try:
            if awaited is not None and not awaited.done():
                awaited._asyncio_future_blocking = True
                yield awaited
        except BaseException:
            self._work.close()
            raise
        return (yield from self._work.__await__())


class _Relay:
    """Stands between a task and the future that its work awaits: a cancellation of the task ends here.

    It speaks asyncio's protocol for futures (see `asyncio.isfuture`).
    """

    __slots__ = ("_asyncio_future_blocking", "_awaited", "_cancelled", "_context", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop, awaited: Any) -> None:
        self._loop, self._awaited = loop, awaited
        self._cancelled: asyncio.CancelledError | None = None
        self._wake: Callable[[Any], object] | None = None
        awaited._asyncio_future_blocking = False  # as the task does with what it is given
        self._asyncio_future_blocking = True

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context) -> None:
        """Called by the task as it begins to wait."""
        self._wake, self._context = wake, context
        self._awaited.add_done_callback(self._done, context=context)

    def cancel(self, msg: str | None = None) -> bool:
        """Called by the task when somebody cancels it: it goes on, and what it waited for stays as it is."""
        wake, self._wake = self._wake, None
        if wake is None:
            return False
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self._loop.call_soon(wake, self, context=self._context)
        return True

    def result(self) -> None:
        """Called by the task as it goes on; an error of what was awaited is raised in the work itself."""
        if self._cancelled is not None:
            raise self._cancelled

    def _done(self, awaited: Any) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake(self)
