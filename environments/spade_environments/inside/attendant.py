"""The loop that supervisor and zygote share: requests on one control channel, the ends of children, the host's end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from typing import Any

__all__ = ["Attendant"]

_REQUEST_LIMIT = 65536


class Attendant:
    """A single-threaded process that starts children on request and ends with the host's side of its channel.

    A subclass says what to do with a request (`serve`), with children that have ended (`reap`), and once the host is
    gone (`end`).
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._wake, wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def run(self) -> None:
        """Attend until the host has closed its side."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                    self.reap()
                elif not self._receive():
                    self.end()
                    return

    def serve(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Carry out one request; the descriptors that came with it are the receiver's to close."""
        raise TypeError(f"{type(self).__name__} serves no requests")

    def reap(self) -> None:
        """Collect the children that have ended."""
        raise TypeError(f"{type(self).__name__} reaps no children")

    def end(self) -> None:
        """Leave no child behind."""
        raise TypeError(f"{type(self).__name__} does not know how to end")

    def tell(self, event: dict[str, Any]) -> None:
        """Send the host an event."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the host is gone: the next read says so
            self._control.send(json.dumps(event).encode())

    @staticmethod
    def leave_to_child() -> None:
        """In a child just forked: signals are its own again."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _receive(self) -> bool:
        """One request of the host; False once the host is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _REQUEST_LIMIT, 4, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return False
        if not data:
            return False
        self.serve(json.loads(data), descriptors)
        return True
