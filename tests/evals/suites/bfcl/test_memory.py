"""Sessions that memory questions need: played once, in order, and again after a fault."""

from __future__ import annotations

import asyncio

import pytest

from spade_agents.errors import InfrastructureError
from spade_evals.suites.bfcl.memory import Sessions
from spade_evals.suites.bfcl.playing import Play


async def test_a_chain_is_played_once_in_order_for_all_who_ask():
    asked = []

    async def play(session, snapshot):
        asked.append((session, snapshot))
        await asyncio.sleep(0)
        # The second outgrows the context: the memory stays as it was.
        return Play(snapshot=None if session == "b" else f"after {session}", tokens_in=2)

    sessions = Sessions()
    found = await asyncio.gather(*(sessions.played("memory_kv", 0, ("a", "b", "c"), play) for _ in range(3)))
    assert asked == [("a", None), ("b", "after a"), ("c", "after a")]
    assert {(one.snapshot, one.tokens_in) for one in found} == {("after c", 6)}
    await sessions.played("memory_kv", 1, ("a", "b", "c"), play)
    assert len(asked) == 6
    await sessions.aclose()


async def test_a_chain_that_failed_is_played_again_and_one_that_is_not_waited_for_goes_on():
    tries = []
    gate = asyncio.Event()

    async def play(session, snapshot):
        tries.append(session)
        if len(tries) == 1:
            raise InfrastructureError("the server answered 500")
        await gate.wait()
        return Play(snapshot="written")

    sessions = Sessions()
    with pytest.raises(InfrastructureError):
        await sessions.played("memory_kv", 0, ("a",), play)
    waiting = asyncio.create_task(sessions.played("memory_kv", 0, ("a",), play))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    gate.set()
    assert (await sessions.played("memory_kv", 0, ("a",), play)).snapshot == "written"
    assert tries == ["a", "a"]
