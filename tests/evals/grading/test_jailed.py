"""The grader in a jail: right answers, wrong ones, and hostile ones."""

from __future__ import annotations

import asyncio

from spade_evals.grading.jailed import JailedGrader

PAIRS = [
    ("\\frac{1}{2}", "0.5", True),
    ("(3, \\frac{\\pi}{2})", "\\left( 3, \\frac{\\pi}{2} \\right)", True),
    ("p - q", "-q + p", True),
    ("70", "71", False),
]


async def test_equal_formulas_are_equal_and_others_are_not():
    grader = JailedGrader(grader="math")
    try:
        found = await asyncio.gather(*(grader.grade(gold=gold, answer=answer) for gold, answer, _ in PAIRS))
    finally:
        await grader.aclose()
    assert [one.value for one in found] == [right for _, _, right in PAIRS]


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
