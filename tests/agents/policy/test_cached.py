"""Completions that are kept, and a budget that is not exceeded."""

from __future__ import annotations

import asyncio

import pytest

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.budget import Budget, BudgetSpentError
from spade_agents.policy.cached import CachedPolicy, CompletionCache
from spade_agents.policy.protocol import PolicyInfo, Sampling
from spade_agents.trajectory import Completion, Usage
from spade_environments import ToolCall

ASKED = Conversation(messages=(Message(role="user", content="x" * 200),))
SAMPLING = Sampling(max_tokens=100)


class Counting:
    """A policy that counts its requests, and how many are in flight."""

    info = PolicyInfo(name="counting", context_length=1000, has_tokens=False)

    def __init__(self, text="yes", used=100):
        self.text, self.used, self.asked, self.alive, self.most = text, used, 0, 0, 0

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        self.asked += 1
        self.alive += 1
        self.most = max(self.most, self.alive)
        await asyncio.sleep(0)
        self.alive -= 1
        call = ToolCall(name="f", arguments={"a": [1, None]})
        return Completion(
            text=f"{self.text} {seed}", calls=(call,), usage=Usage(prompt_tokens=50, completion_tokens=self.used)
        )


async def test_the_same_request_is_asked_once_and_another_one_again(tmp_path):
    inner = Counting()
    policy = CachedPolicy(policy=inner, cache=CompletionCache.open(tmp_path / "c.sqlite"))
    first = await policy.complete(ASKED, SAMPLING, seed=1)
    assert await policy.complete(ASKED, SAMPLING, seed=1) == first
    others = [
        (ASKED, SAMPLING, 2),
        (ASKED, Sampling(max_tokens=101), 1),
        (ASKED.then(Message(role="user", content="more")), SAMPLING, 1),
    ]
    for conversation, sampling, seed in others:
        await policy.complete(conversation, sampling, seed=seed)
    assert (inner.asked, policy.hits, policy.info.name) == (4, 1, "counting")


async def test_another_process_finds_what_was_answered_and_what_it_cost(tmp_path):
    prices = Budget(prompt_price=1.0, completion_price=2.0)
    policy = CachedPolicy(policy=Counting(), cache=CompletionCache.open(tmp_path / "c.sqlite"), budget=prices)
    first = await policy.complete(ASKED, SAMPLING, seed=1)
    policy.cache.close()
    inner = Counting()
    again = CachedPolicy(policy=inner, cache=CompletionCache.open(tmp_path / "c.sqlite"))
    assert await again.complete(ASKED, SAMPLING, seed=1) == first
    assert inner.asked == 0
    spent = again.cache.spent()
    assert (spent.completions, spent.prompt_tokens, spent.completion_tokens) == (1, 50, 100)
    assert spent.price == pytest.approx((50 * 1.0 + 100 * 2.0) / 1e6)


async def test_half_a_surrogate_pair_is_replaced_so_that_it_can_be_kept():
    policy = CachedPolicy(policy=Counting(text="\ud800"), cache=CompletionCache.open(None))
    found = await policy.complete(ASKED, SAMPLING, seed=1)
    assert found.text == "? 1"
    assert await policy.complete(ASKED, SAMPLING, seed=1) == found


def test_a_file_that_is_no_cache_is_refused(tmp_path):
    (tmp_path / "c.sqlite").write_text("no database " * 100)
    with pytest.raises(UsageError, match="cannot be used"):
        CompletionCache.open(tmp_path / "c.sqlite")


def priced(limit: float) -> Budget:
    """One unit a token out; the longest answer takes 100."""
    return Budget(limit=limit, completion_price=1e6)


async def test_a_budget_is_spent_to_what_the_next_answer_may_take_and_no_further():
    inner = Counting(used=40)
    policy = CachedPolicy(policy=inner, cache=CompletionCache.open(None), budget=priced(200.0))
    for seed in range(3):
        await policy.complete(ASKED, SAMPLING, seed=seed)
    with pytest.raises(BudgetSpentError, match=r"120\.0000 of the budget of 200 is spent"):
        await policy.complete(ASKED, SAMPLING, seed=3)
    assert (inner.asked, policy.budget.spent) == (3, 120.0)
    assert await policy.complete(ASKED, SAMPLING, seed=0), "what is in the cache costs nothing"


async def test_answers_in_flight_are_waited_for_before_a_budget_is_called_spent():
    inner = Counting(used=10)
    policy = CachedPolicy(policy=inner, cache=CompletionCache.open(None), budget=priced(250.0))
    await asyncio.gather(*(policy.complete(ASKED, SAMPLING, seed=seed) for seed in range(10)))
    assert (inner.asked, inner.most, policy.budget.spent) == (10, 2, 100.0)


async def test_a_failed_request_gives_back_what_was_held_for_it():
    class Failing(Counting):
        async def complete(self, conversation, sampling, *, seed, deadline=None):
            raise RuntimeError("down")

    policy = CachedPolicy(policy=Failing(), cache=CompletionCache.open(None), budget=priced(150.0))
    for seed in range(3):
        with pytest.raises(RuntimeError, match="down"):
            await policy.complete(ASKED, SAMPLING, seed=seed)
    assert policy.budget.spent == 0.0


def test_a_full_disk_is_no_damaged_file(tmp_path):
    cache = CompletionCache.open(tmp_path / "c.sqlite")
    cache.put("a", "m", Completion(text="kept"), 0.0)
    cache.connection.execute("pragma max_page_count = 4")
    with pytest.raises(InfrastructureError, match="make room and go on"):
        cache.put("b", "m", Completion(text="x" * 100_000), 0.0)
    assert cache.get("a").text == "kept"
    assert cache.get("b") is None
