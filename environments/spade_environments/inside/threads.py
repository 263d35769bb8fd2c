"""Threads for programs in a child that can make none: each runs to its end when it is started."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["run_threads_at_once"]


def run_threads_at_once() -> None:
    """Have `Thread.start` call `run` in the thread that starts it.

    Programs start one thread for its larger stack, or several that do not wait for each other; both give what they
    would give. Threads that wait for each other do not end, and meet a limit.
    """
    threading.Thread.start = _start  # type: ignore[method-assign]


def _start(self: Any) -> None:
    if self._started.is_set():
        raise RuntimeError("threads can only be started once")
    self._started.set()
    try:
        self.run()
    except BaseException:
        self._invoke_excepthook(self)
    finally:
        self._is_stopped = True
