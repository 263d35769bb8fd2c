"""The grader in a jail: right answers under every start method, from threads, and hostile ones."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading

import pytest

from spade_evals.grading.jailed import JailedGrader

PAIRS = [
    ("\\frac{1}{2}", "0.5", True),
    ("(3, \\frac{\\pi}{2})", "\\left( 3, \\frac{\\pi}{2} \\right)", True),
    ("p - q", "-q + p", True),
    ("70", "71", False),
]


async def graded(pairs):
    grader = JailedGrader(grader="math")
    try:
        found = await asyncio.gather(*(grader.grade(gold=gold, answer=answer) for gold, answer, _ in pairs))
    finally:
        await grader.aclose()
    return [one.value for one in found]


def gold_grades(count):
    pairs = (PAIRS * count)[:count]
    return asyncio.run(graded(pairs)) == [right for _, _, right in pairs]


def _report(queue):
    queue.put(gold_grades(4))


def test_gold_is_right_from_a_thread_64_at_once():
    found = []
    thread = threading.Thread(target=lambda: found.append(gold_grades(64)))
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_gold_is_right_under_every_start_method(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_report, args=(queue,))
    process.start()
    assert queue.get(timeout=300)
    process.join()


async def test_an_answer_that_is_a_program_or_hangs_harms_its_own_grade_alone(tmp_path):
    grader = JailedGrader(grader="math", seconds=2)
    mark = tmp_path / "mark"
    answers = [f"__import__('os').system('touch {mark}')", "9^{9^{9^{9}}}", "\\frac{2}{4}", "}" * 50]
    try:
        found = await asyncio.gather(*(grader.grade(gold="\\frac{1}{2}", answer=answer) for answer in answers))
    finally:
        await grader.aclose()
    assert not mark.exists()
    assert found[0].value is not True
    assert found[1].value is not True
    assert found[2].value is True
