"""Objects in other processes: what they answer, and how one that Ray starts again is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from spade_agents.errors import InfrastructureError, SpadeError
from spade_environments.faults import SandboxFault

__all__ = ["Answer", "LostError", "Member", "told"]

T = TypeVar("T")


class LostError(InfrastructureError):
    """A process ended while it was at work; whether it did what it was asked is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """What a remote call gave, or the error of ours that it ended with, which Ray would wrap in one of its own."""

    value: T | None = None
    error: SpadeError | SandboxFault | None = None

    def opened(self) -> T:
        """The value; raises the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


def told(work: Callable[[], T]) -> Answer[T]:
    """Do it, and answer with what came of it."""
    try:
        return Answer(value=work())
    except (SpadeError, SandboxFault) as error:
        return Answer(error=error)


class Member:
    """One of several alike, which Ray starts again when its process is lost.

    Args:
        handle: of a remote object whose `restore` may be called again and again.
        name: for messages.
        restore: what `restore` is called with.
        lost: told of each loss.
    """

    def __init__(
        self, handle: Any, name: str, *, restore: Callable[[], tuple[Any, ...]], lost: Callable[[], None]
    ) -> None:
        self.handle, self.name = handle, name
        self.asked = 0
        self._restore, self._lost = restore, lost
        self._return: asyncio.Task[Any] | None = None
        self._life = 0

    @property
    def away(self) -> bool:
        """Whether it was lost and is not back yet."""
        return self._return is not None and not self._return.done()

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method, once it is there.

        Raises:
            LostError: the process ended meanwhile, or Ray has started it again too often.
            SpadeError, SandboxFault: what the method raised.
        """
        import ray

        await self.back()
        life, reference = self._life, getattr(self.handle, method).remote(*arguments)
        self.asked += 1
        try:
            answer = await reference
        except asyncio.CancelledError:
            ray.cancel(reference)
            raise
        except ray.exceptions.RayTaskError:
            raise  # a fault of the program
        except ray.exceptions.RayError as error:
            self._has_gone(life)
            raise LostError(f"{self.name} was lost in {method}") from error
        finally:
            self.asked -= 1
        return answer.opened()

    async def back(self) -> None:
        """Wait until it is there, if it was lost.

        Raises:
            LostError: it does not come back.
        """
        import ray

        if self._return is None:
            return
        try:
            answer = await asyncio.shield(self._return)
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError as error:
            raise LostError(f"{self.name} was lost and did not come back: {error}") from error
        answer.opened()

    def renew(self) -> None:
        """Have it restored though its process lives: Ray has started it again unseen."""
        self._has_gone(self._life)

    def _has_gone(self, life: int) -> None:
        """Have it restored, once for each time it is lost, however many calls were under way."""
        if life != self._life:
            return
        self._life += 1
        self._lost()
        self._return = asyncio.ensure_future(self._restored())

    async def _restored(self) -> Any:
        # Ray holds a call that may be retried back until the object is there again; others fail at once meanwhile.
        return await self.handle.restore.options(max_task_retries=-1).remote(*self._restore())
