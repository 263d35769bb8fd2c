"""One epoll over the channels of all children: the event loop sees a single reader, however many episodes live."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable

__all__ = ["PATIENCE", "Switchboard"]

PATIENCE = 0.0002
"""Seconds for which the answer of a lone child is watched for; a step of most takes a quarter of that."""
LONGEST_REST = 63
GATHER = 0.002
CROWD = 64 * len(os.sched_getaffinity(0))  # about what the children answer in that time, at some 30 us each
_TURN = 8
_ROOM = 16 * 1024


class Switchboard:
    """Tells each child that its channel can be read; a wake of the event loop serves all that are ready.

    The event loop's own selector costs several times as much for each descriptor and wake. In a crowd the answers of
    two milliseconds are gathered: woken for each of them, the host would spend more on waking, and on memory that has
    left the processor's cache, than on the answer; and the children share the processors with it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._poll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._asked = self._in_a_row = 0
        self._rest = self._resting = 0
        self._last = -1
        self._gathering: asyncio.TimerHandle | None = None
        self.room = memoryview(bytearray(_ROOM))
        """Where every answer is received: always in the processor's cache, and never allocated."""
        self._loop.add_reader(self._poll.fileno(), self._drain)

    def add(self, descriptor: int, read: Callable[[], None]) -> None:
        """Call `read` whenever `descriptor` has something to read."""
        self._poll.register(descriptor, select.EPOLLIN)
        self._readers[descriptor] = read

    def remove(self, descriptor: int) -> None:
        """Stop; to be called before the descriptor is closed."""
        del self._readers[descriptor]
        self._poll.unregister(descriptor)

    def asks(self, descriptor: int) -> bool:
        """A request goes out on `descriptor`; whether its child is alone at play and its answer may be read at once.

        It is alone if it asked last as well, and nobody waits for an answer. Now and then the answer takes its way
        through the event loop nevertheless, so that everybody else gets a turn.
        """
        again, self._last = descriptor == self._last, descriptor
        self._in_a_row = (self._in_a_row + 1) % _TURN if again else 0
        self._asked += 1
        return self._asked == 1 and self._in_a_row > 0

    def watches(self) -> bool:
        """Whether a lone child's answer is worth watching for: not for a while after that was in vain.

        The while doubles each time, so that next to nothing is spent on children that take long, or on a machine that
        has no processor left for them.
        """
        self._resting -= 1
        return self._resting < 0

    def watched(self, *, in_vain: bool) -> None:
        """To be called after each watch."""
        self._rest = min(2 * self._rest + 1, LONGEST_REST) if in_vain else 0
        self._resting = self._rest

    def answered(self) -> None:
        """To be called once for each request, however it ended."""
        self._asked -= 1

    def close(self) -> None:
        if not self._poll.closed:
            self._loop.remove_reader(self._poll.fileno())
            if self._gathering is not None:
                self._gathering.cancel()
            self._poll.close()

    def _drain(self) -> None:
        """One round: what becomes ready meanwhile is told at the loop's next turn, so that others get theirs."""
        readers = self._readers
        for descriptor, _ in self._poll.poll(0):
            # Whoever was served before in this round may have closed this one, or put another in its place.
            read = readers.get(descriptor)
            if read is not None:
                read()
        if self._asked >= CROWD and self._gathering is None:
            self._loop.remove_reader(self._poll.fileno())
            self._gathering = self._loop.call_later(GATHER, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._loop.add_reader(self._poll.fileno(), self._drain)
        self._drain()
