from __future__ import annotations

import asyncio

import pytest

from spade_evals.suites.columns.generated import WITHOUT_OWN_ANSWER, ReasoningGymColumn, _dataset, instance
from tests.evals.logs import sample

QUICK = ("ab", "gcd", "palindrome_generation", "leg_counting", "spiral_matrix")


def columns():
    return [ReasoningGymColumn(name=f"rg_{name}") for name in ("math", "algorithmic", "cognition", "logic")]


def test_the_columns_hold_the_hundred_tasks():
    assert [len(column.load()[0]) for column in columns()] == [31, 36, 24, 9]


async def test_an_epoch_is_an_instance_and_the_same_one_every_time():
    column = ReasoningGymColumn(name="rg_math")
    task = next(task for task in column.load()[0] if task.id == "gcd")
    first, again, second = [await column.opened(task, epoch) for epoch in (0, 0, 1)]
    assert first == again
    assert first.messages != second.messages


async def test_own_answers_win_and_programs_are_refused():
    column = ReasoningGymColumn(name="rg_algorithmic")
    tasks = {task.id: task for one in columns() for task in one.load()[0]}
    opened = [await column.opened(tasks[name], 0) for name in QUICK if name in tasks]
    assert opened
    try:
        scores = await asyncio.gather(
            *(column.grade(task, sample(task.id, response=f"<answer>{task.target}</answer>")) for task in opened)
        )
        assert [score.value for score in scores] == [1.0] * len(opened)
        hostile = await column.grade(
            opened[0], sample("x", response="<answer>__import__('os').system('touch mark')</answer>")
        )
        assert (hostile.value, hostile.reason) == (0.0, "the answer is a program")
        assert (await column.grade(opened[0], sample("x", response="none"))).reason == "no answer tags"
    finally:
        await column.aclose()


@pytest.mark.slow
async def test_the_librarys_own_answers_win_but_for_the_known_ones():
    lost = []
    for column in columns():
        tasks = [task for task in column.load()[0] if task.id not in WITHOUT_OWN_ANSWER]
        opened = [await column.opened(task, 0) for task in tasks]
        answers = [sample(task.id, response=f"<answer>{task.target}</answer>") for task in opened]
        scores = await asyncio.gather(*map(column.grade, opened, answers))
        lost += [(task.id, score.reason) for task, score in zip(tasks, scores, strict=True) if score.value < 1.0]
        await column.aclose()
    assert lost == []
    assert all(instance(name, 0)["answer"] is None for name in WITHOUT_OWN_ANSWER)


def test_what_the_library_prints_does_not_reach_standard_output(capsys):
    _dataset("bf")[7]
    assert capsys.readouterr().out
    instance("bf", 7)
    assert capsys.readouterr().out == ""
