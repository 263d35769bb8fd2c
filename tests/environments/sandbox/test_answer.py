"""The awaitable that goes on with its task at once."""

import asyncio
import contextvars

import pytest

from spade_environments.sandbox.answer import Answer

WHO = contextvars.ContextVar("WHO", default="nobody")


def waiting(said, *, when_cancelled=lambda: None):
    """An answer, and a task that waits for it and notes what it gets and in which context."""
    answer = Answer(asyncio.get_running_loop(), when_cancelled)
    answer.pending = True

    async def wait():
        WHO.set("the task")
        said.append((await answer, WHO.get()))

    return answer, asyncio.create_task(wait())


async def from_a_callback(act):
    """Call `act` as a reader is called: by the event loop, outside every task."""
    done = asyncio.Event()

    def call():
        act()
        done.set()

    asyncio.get_running_loop().call_soon(call)
    await done.wait()


async def test_a_task_goes_on_inside_the_delivery_and_in_its_own_context():
    said, order = [], []
    answer, task = waiting(said)
    await asyncio.sleep(0)
    await from_a_callback(lambda: (answer.deliver(b"x"), order.append(list(said)), order.append(WHO.get())))
    assert order == [[(b"x", "the task")], "nobody"]
    assert task.done()


async def test_an_answer_is_used_again_for_the_next_request():
    answer = Answer(asyncio.get_running_loop(), lambda: None)

    async def ask():
        answer.pending = True
        return await answer

    async def twice():
        return [await ask(), await ask()]

    task = asyncio.create_task(twice())
    await asyncio.sleep(0)
    for word in (b"one", b"two"):
        await from_a_callback(lambda word=word: answer.deliver(word))
    assert await task == [b"one", b"two"]


async def test_giving_up_lets_the_task_go_on_at_the_next_turn_with_nothing():
    said = []
    answer, task = waiting(said)
    await asyncio.sleep(0)
    answer.give_up()
    assert said == []
    await task
    assert said == [(None, "the task")]


async def test_cancelling_the_task_is_told_and_raises_in_it():
    told = []
    answer, task = waiting([], when_cancelled=lambda: told.append("cancelled"))
    await asyncio.sleep(0)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    assert (told, answer.pending) == (["cancelled"], False)


async def test_a_deadline_around_the_task_ends_the_wait():
    answer = Answer(asyncio.get_running_loop(), lambda: None)
    answer.pending = True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await answer


async def test_cancelling_after_the_end_is_no_second_end():
    told = []
    answer, task = waiting([], when_cancelled=lambda: told.append("cancelled"))
    await asyncio.sleep(0)
    answer.give_up()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == []
