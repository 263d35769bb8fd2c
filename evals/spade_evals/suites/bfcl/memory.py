"""Memory entries: their questions need what the model wrote down in sessions before, one chain for each scenario."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from spade_evals.suites.bfcl.playing import Play

__all__ = ["Sessions"]


@dataclass(slots=True, kw_only=True)
class Sessions:
    """Plays each chain of sessions once, whoever asks for it; one that failed is played again when next asked for."""

    _chains: dict[tuple[str, int, Sequence[str]], asyncio.Task[Play]] = field(default_factory=dict)

    async def played(
        self, column: str, epoch: int, sessions: Sequence[str], play: Callable[[str, str | None], Awaitable[Play]]
    ) -> Play:
        """The chain's last play, with the memory it left and the tokens of all its sessions.

        A session that outgrew the model's context leaves the memory as it was, as in the package.

        Args:
            column: of the entries.
            epoch: repetitions of a question follow repetitions of its sessions.
            sessions: ids of the chain, in order.
            play: plays one session on a memory.
        """
        key = (column, epoch, tuple(sessions))
        task = self._chains.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._chains[key] = asyncio.create_task(_played(sessions, play))
        # Shielded: a question whose time is up leaves the sessions to those that still wait.
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Give up what is still played."""
        for task in self._chains.values():
            task.cancel()
        await asyncio.gather(*self._chains.values(), return_exceptions=True)


async def _played(sessions: Sequence[str], play: Callable[[str, str | None], Awaitable[Play]]) -> Play:
    last = Play()
    for session in sessions:
        found = await play(session, last.snapshot)
        last = replace(
            found,
            snapshot=last.snapshot if found.snapshot is None else found.snapshot,
            tokens_in=last.tokens_in + found.tokens_in,
            tokens_out=last.tokens_out + found.tokens_out,
        )
    return last
