"""SamplerEngine: a sampler behind one worker thread; concurrent requests are sampled together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from spade_agents.errors import InfrastructureError, PolicyError
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.sampler import Sampled, SampleRequest
from spade_agents.policy.token_policy import Generated

__all__ = ["SamplerEngine", "StepSampler"]

_GATHER_SECONDS = 0.001
"""How long an idle worker waits for requests that come together, so that equal prompts are prefilled once."""


@dataclass(slots=True, kw_only=True)
class _Ticket:
    """A request on its way: filled by the worker, awaited by `generate`."""

    request: SampleRequest
    deadline: float | None
    future: Future[Sampled]


class StepSampler(Protocol):
    """Samples one token for every live row at each step; not thread-safe."""

    def submit(self, request: SampleRequest) -> int:
        """Queue a request and return its key."""
        ...

    def step(self) -> list[tuple[int, Sampled]]:
        """Sample; the requests that are done, by their keys."""
        ...

    def cancel(self, key: int) -> None:
        """Forget a request."""
        ...

    def clear(self) -> None:
        """Forget every request."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace the weights, and forget what was computed with the old ones."""
        ...


class SamplerEngine:
    """A `TokenEngine` over a sampler in this process, which only its worker thread touches."""

    def __init__(self, sampler: StepSampler) -> None:
        self.sampler = sampler
        self._inbox: list[_Ticket] = []
        self._lock = threading.Lock()
        self._is_working = False
        self._unanswered: set[Future[Sampled]] = set()
        self._shift: Future[None] | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="torch-policy")

    async def generate(
        self,
        prompt_ids: tuple[int, ...],
        sampling: Sampling,
        *,
        stop: frozenset[int],
        seed: int,
        deadline: float | None = None,
        keep: bool = False,
    ) -> Generated:
        """See `TokenEngine`."""
        request = SampleRequest(
            prompt=prompt_ids,
            max_tokens=sampling.max_tokens,
            seed=seed,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            stop=stop,
            keep=keep,
        )
        sampled = await asyncio.wrap_future(self._submit(request, deadline))
        return Generated(sampled.token_ids, sampled.logprobs, sampled.truncated)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over weights by their Hugging Face names; kept prefixes are dropped.

        Raises:
            PolicyError: completions are in flight.
            CheckpointError: a tensor is missing or misshapen; the old weights stay.
        """
        if self._unanswered:
            raise PolicyError("weights were loaded while completions are in flight; wait for them first")
        if self._shift is not None:
            # All are answered, but the worker may still be dropping cancelled rows.
            self._shift.result()
        self.sampler.load(state)

    def close(self) -> None:
        """End the worker thread; requests in flight are finished first."""
        self._worker.shutdown(wait=True)

    def _submit(self, request: SampleRequest, deadline: float | None) -> Future[Sampled]:
        ticket = _Ticket(request=request, deadline=deadline, future=Future())
        self._unanswered.add(ticket.future)
        ticket.future.add_done_callback(self._unanswered.discard)
        with self._lock:
            self._inbox.append(ticket)
            if not self._is_working:
                self._is_working = True
                self._shift = self._worker.submit(self._work)
        return ticket.future

    def _work(self) -> None:
        """Sample until nothing is left; runs in the worker thread, which is the only one to touch the sampler."""
        live: dict[int, _Ticket] = {}
        time.sleep(_GATHER_SECONDS)
        while self._take(live):
            try:
                self._drop_overdue(live)
                done = self.sampler.step()
            except Exception as error:  # the thread's boundary: every waiting completion is told
                self.sampler.clear()
                _fail(list(live.values()), error)
                live.clear()
                continue
            for key, sampled in done:
                _give(live.pop(key).future, sampled)

    def _take(self, live: dict[int, _Ticket]) -> bool:
        """Move new requests to the sampler; False, and no longer working, when there is nothing to do."""
        with self._lock:
            arrived, self._inbox = self._inbox, []
            if not arrived and not live:
                self._is_working = False
                return False
        for ticket in arrived:
            try:
                live[self.sampler.submit(ticket.request)] = ticket
            except PolicyError as error:
                _fail([ticket], error)
        return True

    def _drop_overdue(self, live: dict[int, _Ticket]) -> None:
        now = time.monotonic()
        for key, ticket in list(live.items()):
            overdue = ticket.deadline is not None and now > ticket.deadline
            if overdue or ticket.future.cancelled():
                self.sampler.cancel(key)
                del live[key]
            if overdue:
                _fail([ticket], InfrastructureError("the deadline passed before the completion was sampled"))


def _give(future: Future[Sampled], sampled: Sampled) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(sampled)


def _fail(tickets: Sequence[_Ticket], error: Exception) -> None:
    for ticket in tickets:
        if ticket.future.set_running_or_notify_cancel():
            ticket.future.set_exception(error)
