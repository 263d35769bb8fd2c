"""EndpointClient: requests to a model server: retries, bounded concurrency, a deadline, a count of the cost."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import httpx2

from spade_agents.errors import ContextExhaustedError, InfrastructureError, PolicyError, UsageError
from spade_agents.trajectory import Usage

__all__ = ["AnswerError", "EndpointClient", "EndpointCost", "EndpointSettings"]

T = TypeVar("T")

_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LONG: Final = ("context_length_exceeded", "context length", "maximum context", "max_model_len")
_LONGEST_WAIT: Final = 60.0


class AnswerError(Exception):
    """A body that is not what was asked for; the message says what was found."""


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

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0), ("context_length", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted at least {least}")
        if not 0 < self.request_seconds < math.inf:
            raise ValueError(f"request_seconds is {self.request_seconds:g}; wanted more than 0")
        for name in ("backoff_seconds", "prompt_price", "completion_price"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name):g}; wanted 0 or more")


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


class _Read(NamedTuple):
    """What an attempt brought."""

    value: Any


@dataclass(slots=True, kw_only=True)
class EndpointClient:
    """Requests to one model of one server.

    Args:
        url: what every path is appended to, such as `http://localhost:8000/v1`.
        model: as the server names it; for messages alone.
        key: sent as a bearer token where it is not empty.
        settings: retries, concurrency, prices.
        socket: the path of a Unix socket on which the server listens, instead of the url's host and port.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    settings: EndpointSettings = field(default_factory=EndpointSettings)
    socket: str | None = None
    cost: EndpointCost = field(default_factory=EndpointCost, init=False)
    _client: httpx2.AsyncClient = field(init=False, repr=False)
    _gate: asyncio.Semaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        # As many connections as requests in flight: waiting for one would count as the server's slowness.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self.settings.concurrency)
        transport = httpx2.AsyncHTTPTransport(uds=self.socket, limits=limits) if self.socket else None
        self._client = httpx2.AsyncClient(
            headers=headers, timeout=self.settings.request_seconds, limits=limits, transport=transport
        )
        self._gate = asyncio.Semaphore(self.settings.concurrency)

    async def post(
        self, path: str, body: Mapping[str, Any], read: Callable[[bytes], T], *, seed: int, deadline: float | None
    ) -> T:
        """Send a request until it is answered.

        Args:
            path: after the url.
            body: JSON.
            read: takes the body of an answer of status 200; its `AnswerError` is tried again.
            seed: of the pauses between attempts.
            deadline: `time.monotonic()` at which it is given up.

        Raises:
            InfrastructureError: the server failed at every attempt, or the deadline passed.
            ContextExhaustedError: the prompt is too long for the model.
            UsageError: the server refuses the key, the model or the address.
            PolicyError: it refuses the request for another reason that no retry mends.
        """
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
                async with self._gate:
                    return await self._retried(path, body, read, random.Random(seed))
        except TimeoutError as error:
            raise InfrastructureError(f"{self.url}: the deadline passed before {self.model} answered") from error

    def count(self, used: Usage) -> None:
        """Add the tokens of an answer to the cost."""
        settings = self.settings
        self.cost.prompt_tokens += used.prompt_tokens
        self.cost.completion_tokens += used.completion_tokens
        self.cost.price += (
            used.prompt_tokens * settings.prompt_price + used.completion_tokens * settings.completion_price
        ) / 1e6

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _retried(
        self, path: str, body: Mapping[str, Any], read: Callable[[bytes], T], source: random.Random
    ) -> T:
        pause, reason = self.settings.backoff_seconds, ""
        for attempt in range(self.settings.retries + 1):
            found = await self._attempt(path, body, read)
            if isinstance(found, _Read):
                value: T = found.value
                return value
            reason = found.reason
            if attempt < self.settings.retries:
                self.cost.retries += 1
                await asyncio.sleep(max(found.wait or 0.0, pause * (0.5 + source.random() / 2)))
                pause *= 2
        raise InfrastructureError(
            f"{self.url} failed {self.settings.retries + 1} times, last with {reason}; see that the server of "
            f"{self.model} is up"
        )

    async def _attempt(self, path: str, body: Mapping[str, Any], read: Callable[[bytes], T]) -> _Read | _Refused:
        self.cost.requests += 1
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                answer = await self._client.post(f"{self.url}{path}", json=dict(body))
        except TimeoutError:
            return _Refused(f"no answer within {self.settings.request_seconds:g} s")
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise UsageError(f"{self.url!r} is no address: {error}; wanted http://HOST:PORT/v1") from error
        except httpx2.HTTPError as error:
            return _Refused(f"{type(error).__name__}: {error}")
        if answer.status_code != 200:
            return self._refusal(answer)
        try:
            return _Read(read(answer.content))
        except AnswerError as error:
            return _Refused(f"status 200 and {error}")

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


def _seconds(header: str | None) -> float | None:
    """A Retry-After in seconds; the form with a date is not waited for."""
    try:
        return None if header is None else min(_LONGEST_WAIT, max(0.0, float(header)))
    except ValueError:
        return None
