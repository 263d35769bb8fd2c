"""EndpointPolicy: any OpenAI-compatible endpoint; it has no token ids, so it plays, designs and is evaluated only."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx2

from spade_agents.errors import ContextExhaustedError, InfrastructureError, PolicyError, UsageError
from spade_agents.messages import Conversation
from spade_agents.policy.endpoint_wire import AnswerError, completion_of, request_body
from spade_agents.policy.protocol import PolicyInfo, Sampling
from spade_agents.trajectory import Completion

__all__ = ["EndpointCost", "EndpointPolicy", "EndpointSettings"]

_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LONG: Final = ("context_length_exceeded", "context length", "maximum context", "max_model_len")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """How an endpoint is used.

    Attributes:
        concurrency: requests in flight at once.
        retries: how often a request that failed for the server's reasons is sent again.
        request_seconds: wall-clock limit of one attempt.
        backoff_seconds: before the first retry; doubled before each next one, half of it at random.
        context_length: of the model, in tokens, as told by who runs it.
        prompt_price, completion_price: for a million tokens.
    """

    concurrency: int = 16
    retries: int = 4
    request_seconds: float = 120.0
    backoff_seconds: float = 0.5
    context_length: int = 32_768
    prompt_price: float = 0.0
    completion_price: float = 0.0


@dataclass(slots=True, kw_only=True)
class EndpointCost:
    """What was spent so far; `retries` are the attempts that failed and were made again."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: float = 0.0


class _Refused(NamedTuple):
    """An attempt that may be made again, and how long the server asks to wait."""

    reason: str
    wait: float | None = None


@dataclass(slots=True)
class EndpointPolicy:
    """A policy behind `POST URL/chat/completions`.

    Args:
        url: up to and including the version, such as `http://localhost:8000/v1`.
        model: as the endpoint names it.
        key: sent as a bearer token where it is not empty.
        settings: retries, concurrency, prices.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    settings: EndpointSettings = field(default_factory=EndpointSettings)
    cost: EndpointCost = field(default_factory=EndpointCost, init=False)
    _client: httpx2.AsyncClient = field(init=False, repr=False)
    _gate: asyncio.Semaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        self._client = httpx2.AsyncClient(headers=headers, timeout=self.settings.request_seconds)
        self._gate = asyncio.Semaphore(self.settings.concurrency)

    @property
    def info(self) -> PolicyInfo:
        """The model as the endpoint names it, without tokens."""
        return PolicyInfo(name=self.model, context_length=self.settings.context_length, has_tokens=False)

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """See `Policy`; the same seed gives the same tokens only where the endpoint keeps its word.

        Raises:
            UsageError: the endpoint refuses the key, the model or the address.
            PolicyError: it refuses the request for another reason that no retry mends.
        """
        body = request_body(conversation, sampling, model=self.model, seed=seed)
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
                async with self._gate:
                    return await self._retried(body, sampling, random.Random(seed))
        except TimeoutError as error:
            raise InfrastructureError(f"{self.url}: the deadline passed before {self.model} answered") from error

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Refuse: what is behind an endpoint is not trained.

        Raises:
            PolicyError: always.
        """
        raise PolicyError(
            f"{self.url}#{self.model} is an endpoint: it gives no token ids and takes no weights, so it cannot be "
            "trained; train a model folder, and use the endpoint to design, to play or to be evaluated"
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _retried(self, body: dict[str, Any], sampling: Sampling, source: random.Random) -> Completion:
        pause, reason = self.settings.backoff_seconds, ""
        for attempt in range(self.settings.retries + 1):
            found = await self._attempt(body, sampling)
            if isinstance(found, Completion):
                return found
            reason = found.reason
            if attempt < self.settings.retries:
                self.cost.retries += 1
                await asyncio.sleep(max(found.wait or 0.0, pause * (0.5 + source.random() / 2)))
                pause *= 2
        raise InfrastructureError(
            f"{self.url} failed {self.settings.retries + 1} times, last with {reason}; see that the server of "
            f"{self.model} is up"
        )

    async def _attempt(self, body: dict[str, Any], sampling: Sampling) -> Completion | _Refused:
        self.cost.requests += 1
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                answer = await self._client.post(f"{self.url}/chat/completions", json=body)
        except TimeoutError:
            return _Refused(f"no answer within {self.settings.request_seconds:g} s")
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise UsageError(f"{self.url!r} is no address: {error}; wanted http://HOST:PORT/v1") from error
        except httpx2.HTTPError as error:
            return _Refused(f"{type(error).__name__}: {error}")
        if answer.status_code != 200:
            return self._refusal(answer)
        try:
            completion = completion_of(answer.content, sampling)
        except AnswerError as error:
            return _Refused(f"status 200 and {error}")
        self._count(completion)
        return completion

    def _refusal(self, answer: httpx2.Response) -> _Refused:
        """What a status other than 200 means.

        Raises:
            ContextExhaustedError: the conversation is too long for the model.
            UsageError, PolicyError: nothing that a retry mends.
        """
        told = answer.text[:200].strip() or "no explanation"
        if answer.status_code in _RETRIED:
            return _Refused(f"status {answer.status_code}: {told}", _seconds(answer.headers.get("retry-after")))
        if answer.status_code in (400, 413, 422) and any(mark in answer.text.lower() for mark in _TOO_LONG):
            raise ContextExhaustedError(f"the conversation is too long for {self.model}: {told}")
        if answer.status_code in (401, 403, 404):
            raise UsageError(
                f"{self.url} refuses {self.model} with status {answer.status_code}: {told}; check the address, the "
                "model's name and OPENAI_API_KEY"
            )
        raise PolicyError(f"{self.url} refuses the request with status {answer.status_code}: {told}")

    def _count(self, completion: Completion) -> None:
        used, settings = completion.usage, self.settings
        self.cost.prompt_tokens += used.prompt_tokens
        self.cost.completion_tokens += used.completion_tokens
        self.cost.price += (
            used.prompt_tokens * settings.prompt_price + used.completion_tokens * settings.completion_price
        ) / 1e6


def _seconds(header: str | None) -> float | None:
    """A Retry-After in seconds; the form with a date is not waited for."""
    try:
        return None if header is None else min(60.0, max(0.0, float(header)))
    except ValueError:
        return None
