"""EndpointPolicy: any OpenAI-compatible endpoint; it has no token ids, so it plays, designs and is evaluated only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from spade_agents.errors import PolicyError
from spade_agents.messages import Conversation
from spade_agents.policy.endpoint_client import EndpointClient, EndpointCost, EndpointSettings
from spade_agents.policy.endpoint_wire import completion_of, request_body
from spade_agents.policy.protocol import PolicyInfo, Sampling
from spade_agents.trajectory import Completion

__all__ = ["EndpointCost", "EndpointPolicy", "EndpointSettings"]


class EndpointPolicy:
    """A policy behind `POST URL/chat/completions`.

    Args:
        url: up to and including the version, such as `http://localhost:8000/v1`.
        model: as the endpoint names it.
        key: sent as a bearer token where it is not empty.
        settings: retries, concurrency, prices.
    """

    def __init__(self, url: str, model: str, key: str = "", settings: EndpointSettings | None = None) -> None:
        chosen = settings or EndpointSettings()
        self.client = EndpointClient(url=url, model=model, key=key, settings=chosen)
        self.info = PolicyInfo(name=model, context_length=chosen.context_length, has_tokens=False, backend="endpoint")

    @property
    def cost(self) -> EndpointCost:
        """What was spent so far."""
        return self.client.cost

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """See `Policy`; the same seed gives the same tokens only where the endpoint keeps its word.

        Raises:
            UsageError: the endpoint refuses the key, the model or the address.
            PolicyError: it refuses the request for another reason that no retry mends.
        """
        body = request_body(conversation, sampling, model=self.info.name, seed=seed)
        read = partial(completion_of, sampling=sampling)
        completion = await self.client.post("/chat/completions", body, read, seed=seed, deadline=deadline)
        self.client.count(completion.usage)
        return completion

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Refuse: what is behind an endpoint is not trained.

        Raises:
            PolicyError: always.
        """
        raise PolicyError(
            f"{self.client.url}#{self.info.name} is an endpoint: it gives no token ids and takes no weights, so it "
            "cannot be trained; train a model folder, and use the endpoint to design, to play or to be evaluated"
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()
