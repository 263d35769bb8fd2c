"""Gold answers score 100 %: formulas, choices and programs, from a thread, 64 at once, under every start method."""

from __future__ import annotations

import asyncio
import csv
import json
import multiprocessing
import threading

import pytest

from spade_evals.suites.columns.choice import GpqaColumn
from spade_evals.suites.columns.mathematics import AimeColumn
from spade_evals.suites.columns.programs import LiveCodeBenchColumn
from tests.evals.logs import sample

AT_ONCE = 64
# Gold and an answer that is equal to it and is written otherwise, so that the library has to compare them.
FORMULAS = [
    ("\\frac{1}{2}", "0.5"),
    ("(3, \\frac{\\pi}{2})", "\\left( 3, \\frac{\\pi}{2} \\right)"),
    ("p - q", "-q + p"),
    ("2\\sqrt{3}", "\\sqrt{12}"),
    ("[1, \\infty)", "[1,\\infty)"),
    ("\\{1, 2\\}", "\\{2, 1\\}"),
    ("x^2 + 2x + 1", "(x+1)^2"),
    ("540", "540"),
]


def write_data(folder):
    """Files of the three columns, 64 tasks in each."""
    with (folder / "aime25.jsonl").open("w") as file:
        for number in range(AT_ONCE):
            gold = FORMULAS[number % len(FORMULAS)][0]
            file.write(json.dumps({"prompt": f"Problem {number}?", "answer": gold}) + "\n")
    with (folder / "gpqa_diamond.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Record ID", "Question", "Correct Answer", *(f"Incorrect Answer {k}" for k in (1, 2, 3))])
        rows.writerows([f"r{number}", f"Q{number}?", "right", "a", "b", "c"] for number in range(AT_ONCE))
    with (folder / "test6.jsonl").open("w") as file:
        for number in range(AT_ONCE):
            tests = [{"input": f"{k} {number}\n", "output": f"{k + number}\n", "testtype": "stdin"} for k in (1, 2)]
            row = {"question_id": str(number), "question_content": "Add.", "public_test_cases": json.dumps(tests)}
            file.write(json.dumps(row) + "\n")


def column_of(kind, folder):
    if kind == "math":
        return AimeColumn(name="aime25", data=folder)
    if kind == "gpqa":
        return GpqaColumn(name="gpqa_diamond", data=folder, seed=0)
    return LiveCodeBenchColumn(name="livecodebench_v6", data=folder)


def answer(kind, number, task):
    if kind == "math":
        return f"So \\boxed{{{FORMULAS[number % len(FORMULAS)][1]}}}."
    if kind == "gpqa":
        return f"\\boxed{{\\text{{{task.target}}}}}"
    return "```python\nprint(sum(map(int, input().split())))\n```"


async def grades(kind, folder):
    """What the column gives for its 64 gold answers, all graded at once."""
    column = column_of(kind, folder)
    tasks, _ = column.load()
    opened = [await column.opened(task, 0) for task in tasks]
    samples = [sample(task.id, response=answer(kind, number, task)) for number, task in enumerate(opened)]
    try:
        return [
            score.value
            for score in await asyncio.gather(*(column.grade(*pair) for pair in zip(opened, samples, strict=True)))
        ]
    finally:
        await column.aclose()


def from_a_thread(kind, folder):
    """The same from a thread, where signals do not work."""
    found = []
    thread = threading.Thread(target=lambda: found.extend(asyncio.run(grades(kind, folder))))
    thread.start()
    thread.join()
    return found


def _report(queue, kind, folder):
    queue.put(from_a_thread(kind, folder))


@pytest.mark.parametrize("kind", ["math", "gpqa", "code"])
def test_gold_scores_100_percent_from_a_thread_64_at_once(kind, tmp_path):
    write_data(tmp_path)
    assert from_a_thread(kind, tmp_path) == [1.0] * AT_ONCE


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["math", "gpqa", "code"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_gold_scores_100_percent_under_every_start_method(method, kind, tmp_path):
    write_data(tmp_path)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_report, args=(queue, kind, tmp_path))
    process.start()
    try:
        assert queue.get(timeout=300) == [1.0] * AT_ONCE
    finally:
        process.join(30)
        process.kill()
