"""Graders that are not ours, in jailed processes: requests that wait together are graded by one process.

Libraries that grade evaluate the model's text, use signals, and can hang. In a process of their own without network,
secrets or anything to write to, each answer in a fork, an answer can harm its own grade alone; and it does not matter
from which thread, or under which start method of multiprocessing, a grade is asked for.
"""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spade_agents.errors import InfrastructureError
from spade_environments import HostFault
from spade_environments.sandbox.jail import python_folders, run_jailed

__all__ = ["Graded", "JailedGrader"]

_WORKER = Path(__file__).with_name("worker.py")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """A grader's answer.

    Attributes:
        value: what it returned, JSON-able.
        error: what it raised, or how its process ended; empty where it returned.
        is_ours: whether the library failed before it saw the answer.
    """

    value: Any = None
    error: str = ""
    is_ours: bool = False


@dataclass(slots=True)
class _Request:
    body: str
    future: asyncio.Future[Graded]


@dataclass(slots=True, kw_only=True)
class JailedGrader:
    """Runs one grader of `worker.py` in jails; belongs to one event loop.

    Attributes:
        grader: its name in `worker.py`.
        python: the interpreter, whose environment holds the libraries; this one's unless given.
        readable: files and folders that it may read besides its installation.
        environment: of the process.
        seconds: CPU time of one grade.
        start_seconds: CPU time of starting, imports included.
        batch: requests that one process grades at most.
        memory: bytes.
    """

    grader: str
    python: Path = field(default_factory=lambda: Path(sys.executable))
    readable: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: int = 5
    start_seconds: float = 30.0
    batch: int = 256
    memory: int = 2048 * _MIB
    _waiting: list[_Request] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    async def grade(self, **arguments: Any) -> Graded:
        """Grade one answer; returns once its process said so.

        Raises:
            InfrastructureError: the jail could not be had, or was lost.
        """
        body = base64.b64encode(pickle.dumps(arguments)).decode()
        request = _Request(body, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await request.future

    async def aclose(self) -> None:
        """Give up what still waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for request in self._waiting:
            request.future.cancel()

    async def _work(self) -> None:
        await asyncio.sleep(0)  # requests that are made together go together
        while self._waiting:
            taken, self._waiting = self._waiting[: self.batch], self._waiting[self.batch :]
            try:
                self._waiting = await self._run(taken) + self._waiting
            except (HostFault, OSError) as error:
                self._fail(taken, InfrastructureError(f"the grader {self.grader} could not be run: {error}"))
            except InfrastructureError as error:
                self._fail(taken, error)
            except BaseException as error:
                self._fail(taken, error)
                raise

    async def _run(self, requests: Sequence[_Request]) -> list[_Request]:
        """Grade a batch; returns what is left where the process ended before its time."""
        run = await run_jailed(
            [self.python, "-I", _WORKER, self.grader, str(self.seconds)],
            readable=[*python_folders(self.python), _WORKER, *self.readable],
            environment={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "HOME": ".", **self.environment},
            stdin="".join(f"{request.body}\n" for request in requests),
            timeout=self.start_seconds + self.seconds * len(requests),
            memory=self.memory,
        )
        lines = run.stdout.split("\n")
        if lines[0] != "ready":
            raise InfrastructureError(
                f"the grader {self.grader} did not start ({run.outcome.value}): {run.stderr[-400:] or run.error}"
            )
        answers = lines[1:-1]
        for request, line in zip(requests, answers, strict=False):
            _settle(request, _read(line))
        left = list(requests[len(answers) :])
        if left and not answers:
            # No answer can end the process, since each is graded in a fork: the machine did.
            told = run.stderr.strip().rsplit("\n", 1)[-1][-200:]
            raise InfrastructureError(f"the process of the grader {self.grader} ended ({run.outcome.value}): {told}")
        return left

    def _fail(self, requests: Sequence[_Request], error: BaseException) -> None:
        for request in requests:
            if not request.future.done():
                if isinstance(error, asyncio.CancelledError):
                    request.future.cancel()
                else:
                    request.future.set_exception(error)


def _settle(request: _Request, graded: Graded) -> None:
    if not request.future.done():
        request.future.set_result(graded)


def _read(line: str) -> Graded:
    try:
        row = json.loads(line)
        return Graded(value=row.get("value"), error=str(row.get("error", ""))[:500], is_ours=bool(row.get("ours")))
    except (ValueError, AttributeError):
        return Graded(error="the grader's answer was no JSON")
