"""SIGKILL between any two writes of a checkpoint: file operations are counted, and at a chosen one the process dies."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

_CHANGES = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Killer:
    """Dies before operation number `at` of those that go on while it is armed; `at=None` only counts."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.count, self.armed = at, 0, False
        # A kill loses nothing that was written, synchronised or not: only the power does.
        os.fsync = lambda handle: self.tick()
        sys.addaudithook(self._hook)

    def tick(self) -> None:
        if not self.armed:
            return
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def _hook(self, event: str, arguments: tuple) -> None:
        if event in _CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING):
            self.tick()

    def while_in(self, function: Callable) -> Callable:
        """The function, during whose calls operations count."""

        def guarded(*arguments, **named):
            self.armed = True
            try:
                return function(*arguments, **named)
            finally:
                self.armed = False

        return guarded


def in_child(work: Callable[[], int]) -> int | None:
    """What `work` returns in a forked child, at most 250; `None` where the child was killed."""
    child = os.fork()
    if child == 0:
        status = 255
        try:
            status = work()
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        assert os.WTERMSIG(ended) == signal.SIGKILL
        return None
    assert os.WEXITSTATUS(ended) != 255, "the child failed"
    return os.WEXITSTATUS(ended)


def run_child(at: int | None, run: Path) -> int:
    """Go on with a run, dying at a checkpoint's operation; else how many there were."""
    import spade_agents
    from spade_agents.selfplay import loop

    killer = Killer(at)
    loop.checkpoint = killer.while_in(loop.checkpoint)
    spade_agents.resume(run, overrides=["run.keep_checkpoints=1"])
    return min(killer.count, 250)


def main(arguments: list[str]) -> None:
    """Runs to go on with, and where to die: every child begins with all modules loaded.

    Prints for each how many operations there were, or `killed`.
    """
    import spade_agents.policy.sampler
    import spade_agents.selfplay.run
    import spade_agents.training.torch_engine  # noqa: F401

    for argument in arguments:
        run, _, at = argument.rpartition("@")
        count = in_child(lambda run=run, at=at: run_child(int(at) if at else None, Path(run)))
        print("killed" if count is None else count, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
