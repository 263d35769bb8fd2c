"""What every policy is: a conversation in, a completion out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from spade_agents.messages import Conversation
from spade_agents.trajectory import Completion

__all__ = ["Policy", "PolicyInfo", "Sampling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample; top-p and top-k are refused for training because they bias the importance ratio."""

    temperature: float = 1.0
    max_tokens: int = 512
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature is {self.temperature:g}; wanted 0 or more")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}; wanted at least 1")
        if not 0 < self.top_p <= 1 or self.top_k < 0:
            raise ValueError(f"top_p is {self.top_p:g} and top_k {self.top_k}; wanted top_p in (0, 1], top_k 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInfo:
    """What a policy is.

    Attributes:
        name: of the model.
        context_length: in tokens.
        has_tokens: whether its completions can be trained on.
        weight_version: of the present weights.
        backend: what runs the model, with its version where that is known, such as `vllm 0.32.0`.
    """

    name: str
    context_length: int
    has_tokens: bool
    weight_version: int = 0
    backend: str = ""


class Policy(Protocol):
    """A model, an endpoint or a script that continues conversations."""

    @property
    def info(self) -> PolicyInfo: ...

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """Continue a conversation by one assistant message.

        Args:
            conversation: see `Conversation`; its `tokens` are kept, never re-rendered.
            sampling: temperature, lengths.
            seed: of this completion alone: same seed, weights and conversation give the same tokens, whatever else is
                sampled beside it.
            deadline: `time.monotonic()` after which an `InfrastructureError` is raised.

        Raises:
            PolicyError: the prompt does not fit the context.
            InfrastructureError: the engine failed or the deadline passed.
        """
        ...
