"""Budget: what completions may cost, held before they are asked for and settled when they are there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from spade_agents.errors import InfrastructureError
from spade_agents.messages import Conversation
from spade_agents.policy.protocol import Sampling
from spade_agents.trajectory import Usage

__all__ = ["Budget", "BudgetSpentError", "Held"]

_CHARACTERS_PER_TOKEN: Final = 2
"""Fewer than real tokens have, so that an estimate is rather too high."""


class BudgetSpentError(InfrastructureError):
    """What is left of the budget does not cover the next completion at its longest."""


@dataclass(slots=True)
class Held:
    """A part of the budget that is set aside for a completion; `settle` says what it took in the end."""

    estimate: float
    taken: float | None = None

    def settle(self, price: float) -> None:
        """The completion is there, at this price."""
        self.taken = price


@dataclass(slots=True, kw_only=True)
class Budget:
    """An amount that is not exceeded, as far as the endpoint counts its tokens truly.

    Attributes:
        limit: in the currency of the prices; `None` for no limit.
        prompt_price, completion_price: for a million tokens.
        spent: so far, by earlier processes too where it is begun with that.
    """

    limit: float | None = None
    prompt_price: float = 0.0
    completion_price: float = 0.0
    spent: float = 0.0
    _held: float = 0.0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition, repr=False)

    def price(self, used: Usage) -> float:
        """What a completion costs."""
        return (used.prompt_tokens * self.prompt_price + used.completion_tokens * self.completion_price) / 1e6

    @asynccontextmanager
    async def held(self, conversation: Conversation, sampling: Sampling) -> AsyncIterator[Held]:
        """Set aside what a completion costs at its longest; waits for others in flight where that alone is missing.

        Raises:
            BudgetSpentError: even with nothing in flight too little is left.
        """
        written = sum(len(message.content) for message in conversation.messages)
        longest = Usage(prompt_tokens=written // _CHARACTERS_PER_TOKEN, completion_tokens=sampling.max_tokens)
        held = Held(self.price(longest))
        async with self._changed:
            await self._changed.wait_for(lambda: self._fits(held.estimate) or not self._held)
            if not self._fits(held.estimate):
                raise BudgetSpentError(
                    f"{self.spent:.4f} of the budget of {self.limit or 0:g} is spent and the next completion may take "
                    f"{held.estimate:.4f}; go on with a larger --budget"
                )
            self._held += held.estimate
        try:
            yield held
        finally:
            async with self._changed:
                self._held -= held.estimate
                if self._held < 1e-12:  # sums of floats
                    self._held = 0.0
                self.spent += held.taken or 0.0
                self._changed.notify_all()

    def _fits(self, estimate: float) -> bool:
        return self.limit is None or self.spent + self._held + estimate <= self.limit
