"""Objects in other processes: what they answer, and how one that Ray starts again is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from spade_agents.errors import InfrastructureError, SpadeError
from spade_environments.faults import SandboxFault

__all__ = ["Answer", "LostError", "Member", "answering", "losing", "told"]

P = ParamSpec("P")
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


def answering(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[Answer[T]]]:
    """A method that answers with what comes of it."""

    @wraps(method)
    async def answer(*arguments: P.args, **named: P.kwargs) -> Answer[T]:
        try:
            return Answer(value=await method(*arguments, **named))
        except (SpadeError, SandboxFault) as error:
            return Answer(error=error)

    return answer


@contextmanager
def losing(error_of: Callable[[str], Exception]) -> Iterator[None]:
    """What Ray says of a process that has gone, as an error of ours; a fault of the program stays what it is."""
    import ray

    try:
        yield
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError as error:
        raise error_of((str(error).strip().splitlines() or ["no reason given"])[0]) from error


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
        try:
            with losing(lambda why: LostError(f"{self.name} was lost in {method}: {why}")):
                answer = await reference
        except asyncio.CancelledError:
            ray.cancel(reference)
            raise
        except LostError:
            self._has_gone(life)
            raise
        return answer.opened()

    async def back(self) -> None:
        """Wait until it is there, if it was lost.

        Raises:
            LostError: it does not come back.
        """
        if self._return is not None:
            with losing(lambda why: LostError(f"{self.name} was lost and did not come back: {why}")):
                answer = await asyncio.shield(self._return)
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
