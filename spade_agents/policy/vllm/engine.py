"""VllmEngine: tokens in, tokens and log-probabilities out, many requests in flight at one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from spade_agents.errors import InfrastructureError
from spade_agents.policy.arrival import ArrivalError
from spade_agents.policy.endpoint_client import EndpointClient
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.token_policy import Generated
from spade_agents.policy.vllm.wire import GENERATE, Sampled, generate_body, read_sampled

__all__ = ["VllmEngine", "is_biased"]

_PROBE_TOKENS: Final = 600
"""Long enough to fill some of a cache's blocks, whatever their size."""


class VllmEngine:
    """A `TokenEngine` over a vLLM server.

    The same seed gives the same tokens as long as what else is in flight does not change the server's rounding.

    Args:
        client: for the requests.
        context_length: of the server, in tokens.
        label: of the weights that tokens must be sampled with; `None` where the server does not tell.
        fault: why there is no server any more, or `None`.
    """

    def __init__(
        self,
        client: EndpointClient,
        *,
        context_length: int,
        label: str | None,
        fault: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.client = client
        self.label = label
        self.in_flight = 0
        self.probe = tuple(10 + (7 * place) % 200 for place in range(min(_PROBE_TOKENS, context_length - 2)))
        self._context_length = context_length
        self._fault = fault

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
        """See `TokenEngine`; the server keeps every prefix, so `keep` says nothing new.

        Raises:
            InfrastructureError: the server failed or is gone, or the deadline passed.
            ArrivalError: it sampled with other weights than those that were sent.
        """
        del keep
        room = min(sampling.max_tokens, self._context_length - len(prompt_ids))
        body = generate_body(
            prompt_ids, replace(sampling, max_tokens=room), model=self.client.model, stop=sorted(stop), seed=seed
        )
        with self._counted():
            try:
                found = await self.client.post(GENERATE, body, read_sampled, seed=seed, deadline=deadline)
            except InfrastructureError as error:
                if fault := self._fault():
                    raise InfrastructureError(fault) from error
                raise
        self._check_label(found)
        return found.generated

    async def tells_processed(self) -> bool:
        """Whether log-probabilities are of what is sampled from: where only one token is left, its own must be 0."""
        found = await self.generate(self.probe, Sampling(max_tokens=1, top_k=1), stop=frozenset(), seed=0)
        return found.logprobs[0] > -1e-4

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def _check_label(self, found: Sampled) -> None:
        if self.label is not None and set(found.labels) != {self.label}:
            told = ", ".join(sorted(set(found.labels))) or "no version"
            raise ArrivalError(
                f"tokens were sampled with weights of {told}; wanted version {self.label} throughout: something else "
                "changes this server's weights; give it to one run alone"
            )


def is_biased(sampling: Sampling) -> bool:
    """Whether the plain softmax of the logits is not what these parameters sample from."""
    return sampling.temperature not in (0.0, 1.0) or sampling.top_p < 1.0 or sampling.top_k > 0
