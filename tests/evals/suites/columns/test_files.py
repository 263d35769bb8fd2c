"""The columns that read a user's files, on small files of our own in the published formats."""

from __future__ import annotations

import base64
import csv
import json
import pickle
import zlib

import pytest

from spade_agents.errors import UsageError
from spade_evals.suites.columns.choice import GpqaColumn
from spade_evals.suites.columns.mathematics import AimeColumn
from spade_evals.suites.columns.programs import LiveCodeBenchColumn, same_output
from spade_evals.suites.reasoning import COLUMNS, ReasoningSuite
from tests.evals.logs import sample

ADD = "a, b = map(int, input().split())\nprint(a + b)\n"


def packed(tests):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


@pytest.fixture
def data(tmp_path):
    (tmp_path / "aime25.jsonl").write_text('{"prompt": "1 + 1?", "answer": 2}\n{"prompt": "Half?", "answer": "1/2"}\n')
    with (tmp_path / "gpqa_diamond.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Record ID", "Question", "Correct Answer", *(f"Incorrect Answer {k}" for k in (1, 2, 3))])
        rows.writerow(["rec1", "Which?", "right", "wrong 1", "wrong 2", "wrong 3"])
    tests = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
    calls = [{"input": "[1, 2]\n3", "output": "[4, 5]", "testtype": "functional"}]
    problem = {"question_content": "Add.", "difficulty": "easy"}
    lines = [
        {**problem, "question_id": "add", "public_test_cases": json.dumps(tests), "private_test_cases": packed(tests)},
        {**problem, "question_id": "shift", "public_test_cases": json.dumps(calls), "starter_code": "class Solution:",
         "private_test_cases": json.dumps(calls), "metadata": json.dumps({"func_name": "shift"})},
    ]  # fmt: skip
    (tmp_path / "livecodebench_small.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


async def score(column, task, response, epoch=0):
    opened = await column.opened(task, epoch)
    return await column.grade(opened, sample(task.id, epoch=epoch, response=response))


async def test_aime_is_graded_by_the_last_box(data):
    column = AimeColumn(name="aime25", data=data)
    tasks, digests = column.load()
    assert list(digests) == ["aime25.jsonl"]
    assert (await score(column, tasks[0], "so \\boxed{3}, no \\boxed{02}")).value == 1.0
    assert (await score(column, tasks[0], "2")).reason == "no boxed answer"
    assert (await score(column, tasks[1], "\\boxed{" + "1+" * 400 + "1}")).reason == "the boxed answer is too long"


async def test_gpqa_options_are_shuffled_by_seed_and_epoch_and_the_target_follows(data):
    column = GpqaColumn(name="gpqa_diamond", data=data, seed=0)
    (task,), _ = column.load()
    targets = set()
    for epoch in range(8):
        opened = await column.opened(task, epoch)
        text = opened.messages[0].content
        assert f"{opened.target}. right" in text
        targets.add(opened.target)
        assert (await score(column, task, f"\\boxed{{\\text{{{opened.target}}}}}", epoch)).value == 1.0
        assert opened == await column.opened(task, epoch)
    assert len(targets) > 1


async def test_programs_are_run_against_their_tests(data):
    column = LiveCodeBenchColumn(name="livecodebench_v6", data=data)
    (add, shift), digests = column.load()
    assert list(digests) == ["livecodebench_small.jsonl (2 problems)"]
    assert add.target == "2 tests"
    solution = "class Solution:\n    def shift(self, numbers, by):\n        return [n + by for n in numbers]\n"
    try:
        assert (await score(column, add, f"```python\n{ADD}```")).value == 1.0
        assert (await score(column, shift, f"```python\n{solution}```")).value == 1.0
        assert (await score(column, add, "```python\nprint(4)\n```")).reason == "test 0: wrong answer"
        assert (await score(column, add, ADD)).reason == "no code block"
        assert (await score(column, add, "```python\nif\n```")).reason == "no Python program: SyntaxError"
        mark = data / "mark"
        hostile = f"__import__('os').system('touch {mark}')\nopen({str(mark)!r}, 'w')\n"
        assert (await score(column, add, f"```python\n{hostile}```")).value == 0.0
        assert not mark.exists()
    finally:
        await column.aclose()


def test_private_tests_that_name_a_program_are_refused(data):
    class Hostile:
        def __reduce__(self):
            return print, ("run",)

    line = {"question_id": "x", "question_content": "", "public_test_cases": "[]",
            "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(Hostile()))).decode()}  # fmt: skip
    (data / "livecodebench_small.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match="is no problem of LiveCodeBench"):
        LiveCodeBenchColumn(name="livecodebench_v6", data=data).load()


def test_output_is_compared_by_lines_and_numbers():
    assert same_output("1.0 2\nyes \n", "1 2.00\nyes")
    assert not same_output("1\n2", "1")
    assert not same_output("yes", "no")


def test_what_a_user_must_supply_is_named_by_the_preflight(tmp_path, data):
    lacking = {lack.column: lack.what for lack in ReasoningSuite(data=tmp_path / "nowhere").preflight()}
    assert set(lacking) == {"aime25", "aime26", "gpqa_diamond", "livecodebench_v6"}
    assert "huggingface.co" in lacking["gpqa_diamond"]
    assert [lack.column for lack in ReasoningSuite(data=data).preflight()] == ["aime26"]
    with pytest.raises(UsageError, match="reasoning has no column 'aime27'"):
        ReasoningSuite(part="aime27")
    with pytest.raises(UsageError, match="there is no protocol 'papers'"):
        ReasoningSuite(protocol="papers")


def test_the_two_protocols_differ_where_the_paper_and_the_release_do():
    paper, release = (ReasoningSuite(protocol=name).columns for name in ("paper", "release"))
    assert list(paper) == list(COLUMNS)
    assert (paper["aime25"].n, release["aime25"].n) == (32, 64)
    assert paper["aime25"].sampling.top_p == 0.8
    assert release["aime25"].sampling.temperature == 1.0
    assert paper["rg_math"] == release["rg_math"]
