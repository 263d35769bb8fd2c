"""Work that goes on without its caller."""

import asyncio

import pytest

from spade_environments.sandbox.answer import Answer
from spade_tools.carried import Carried


async def begun(work):
    """A task that carries `work`, as far as it goes by itself, and what it carries."""
    carried = Carried(work)

    async def call():
        return await carried

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    return task, carried


async def plus_one(awaited, done):
    done.append(await awaited + 1)
    return done[-1]


async def test_work_that_waits_for_nothing_runs_in_the_task_of_its_caller():
    async def work():
        return asyncio.current_task()

    assert await Carried(work()) is asyncio.current_task()


async def test_a_caller_gets_the_result_and_the_error_of_its_work():
    future, done = asyncio.get_running_loop().create_future(), []
    task, carried = await begun(plus_one(future, done))
    future.set_result(1)
    assert (await task, done, carried.rest) == (2, [2], None)
    broken = asyncio.get_running_loop().create_future()
    task, _ = await begun(plus_one(broken, done))
    broken.set_exception(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await task


async def test_work_goes_on_after_its_caller_is_cancelled_as_it_waits():
    future, done = asyncio.get_running_loop().create_future(), []
    task, carried = await begun(plus_one(future, done))
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    assert not future.cancelled()
    future.set_result(1)
    assert (await carried.rest, done) == (2, [2])


async def test_work_goes_on_after_its_caller_is_cancelled_between_the_result_and_its_own_turn():
    future, done = asyncio.get_running_loop().create_future(), []
    task, carried = await begun(plus_one(future, done))
    future.set_result(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await carried.rest, done) == (2, [2])


async def test_work_goes_on_after_a_second_cancellation_and_after_a_bare_turn():
    done = []

    async def work():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        done.append("all of it")

    task, carried = await begun(work())
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await carried.rest
    assert done == ["all of it"]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_childs_answer_reaches_the_work_whether_it_comes_before_or_after_the_rest_begins(moment):
    hung_up, done, loop = [], [], asyncio.get_running_loop()
    answer = Answer(loop, lambda: hung_up.append("hung up"))
    answer.pending = True

    async def work():
        done.append(await answer)

    task, carried = await begun(work())
    task.cancel()
    if moment == "before":
        loop.call_soon(answer.deliver, b"x")
    with pytest.raises(asyncio.CancelledError):
        await task
    if moment == "after":
        await asyncio.sleep(0)
        loop.call_soon(answer.deliver, b"x")
    await carried.rest
    assert (done, hung_up) == ([b"x"], [])


async def test_ending_the_rest_ends_what_it_waits_for():
    future, ended = asyncio.get_running_loop().create_future(), []

    async def work():
        try:
            await future
        finally:
            ended.append("ended")

    task, carried = await begun(work())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    carried.rest.cancel()
    await asyncio.gather(carried.rest, return_exceptions=True)
    assert (ended, future.cancelled()) == (["ended"], True)
