"""What an endpoint must show: before it is evaluated that it is there, in each answer that something is in it."""

from __future__ import annotations

import re
from dataclasses import replace

import httpx2

from spade_agents.errors import ContextExhaustedError, InfrastructureError, UsageError
from spade_agents.messages import Conversation
from spade_agents.policy.protocol import Policy, PolicyInfo, Sampling
from spade_agents.trajectory import Completion

__all__ = ["StrictPolicy", "is_endpoint", "reach"]

_SECONDS = 15.0
_CONTEXT = re.compile(r"context length (?:is |of )?(?:only )?(\d+)")
_PROMPT = re.compile(r"(\d+) (?:input tokens|tokens? (?:in|from) the|in the (?:messages|prompt))")


class StrictPolicy:
    """A policy behind an endpoint whose empty answers are errors, and whose prompts alone decide what is too long.

    A server that drops the text of an answer (some do beside `tool_calls: []`) would else be read as a model that made
    no call. And servers refuse a prompt that fits where it does not together with the tokens asked for: those are
    lessened to what the context leaves, as policies in this process have it.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def info(self) -> PolicyInfo:
        return self._policy.info

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """As the policy within.

        Raises:
            ContextExhaustedError: the prompt leaves no room for a single token.
            InfrastructureError: also where an answer holds neither text, thinking nor a call.
        """
        room = sampling.max_tokens
        while True:
            try:
                found = await self._policy.complete(
                    conversation, replace(sampling, max_tokens=room), seed=seed, deadline=deadline
                )
                break
            except ContextExhaustedError as error:
                if room <= 1:
                    raise
                room = _room(str(error), room)
        if not (found.text or found.thinking or found.calls or found.broken or found.finish == "length"):
            raise InfrastructureError(f"{self.info.name} answered with status 200 and nothing in it")
        return found


def _room(told: str, asked: int) -> int:
    """Tokens to ask for after a refusal: what the server says is left, or half as many."""
    context, prompt = _CONTEXT.search(told), _PROMPT.search(told)
    left = int(context[1]) - int(prompt[1]) if context and prompt else asked // 2
    return max(1, min(left, asked - 1))


def is_endpoint(target: str) -> bool:
    """Whether a model's name is that of an endpoint."""
    return "://" in target


async def reach(target: str) -> None:
    """See that something answers at an endpoint's address, which costs no token.

    Raises:
        InfrastructureError: nothing does.
        UsageError: it is no address.
    """
    url = target.partition("#")[0]
    try:
        async with httpx2.AsyncClient(timeout=_SECONDS) as client:
            await client.get(f"{url.rstrip('/')}/models")
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise UsageError(f"{url!r} is no address: {error}; wanted http://HOST:PORT/v1#MODEL") from error
    except httpx2.HTTPError as error:
        raise InfrastructureError(
            f"nothing answers at {url} ({type(error).__name__}: {error}); start the server, or mend the address"
        ) from error
