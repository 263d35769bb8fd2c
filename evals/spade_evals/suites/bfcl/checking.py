"""Grades by the package's checkers, which run in a jail of their own: requests and answers by number."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from spade_agents.errors import InfrastructureError
from spade_evals.grading.conversing import Channel, JailedScript

__all__ = ["Checker", "Verdict"]

_SCRIPT = Path(__file__).with_name("checker.py")


class Verdict(NamedTuple):
    """Why a result is wrong, empty where it is right; `error` where the check was ended by it."""

    fault: str
    error: str


@dataclass(slots=True, kw_only=True)
class Checker:
    """Asks `checker.py`; belongs to one event loop.

    Attributes:
        python: bfcl-eval's.
        cpu_seconds: of one check, which carries out the model's calls.
    """

    python: Path
    cpu_seconds: int = 20
    _jailed: JailedScript | None = None
    _waiting: dict[int, asyncio.Future[Verdict]] = field(default_factory=dict)
    _unsent: list[dict[str, Any]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)
    _tasks: tuple[asyncio.Task[None], ...] = ()
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def check(self, category: str, identity: str, result: Any) -> Verdict:
        """Grade one result.

        Raises:
            InfrastructureError: the process could not be started, or was lost.
        """
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._waiting[number] = future
        self._unsent.append({"grade": number, "category": category, "id": identity, "result": result})
        self._more.set()
        if not self._tasks or any(task.done() for task in self._tasks):
            self._begin()
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    async def aclose(self) -> None:
        """End the process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._jailed is not None:
            await self._jailed.aclose()

    def _begin(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._jailed = self._jailed or JailedScript(
            script=_SCRIPT, python=self.python, arguments=(str(self.cpu_seconds),)
        )
        self._tasks = (asyncio.create_task(self._work(self._jailed)),)

    async def _work(self, jailed: JailedScript) -> None:
        """Send what is asked for and hand out what is answered, until the process is lost."""
        try:
            channel = await jailed.main()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(channel))
                group.create_task(self._receive(jailed, channel))
        except* InfrastructureError as errors:
            self._unsent.clear()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(InfrastructureError(str(errors.exceptions[0])))

    async def _send(self, channel: Channel) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            rows, self._unsent = self._unsent, []
            await channel.send(*rows)

    async def _receive(self, jailed: JailedScript, channel: Channel) -> None:
        while (row := await channel.receive()) is not None:
            future = self._waiting.get(row["grade"])
            if future is not None and not future.done():
                future.set_result(Verdict(row["value"], row["error"]))
        raise await jailed.fault()
