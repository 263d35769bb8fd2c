"""LiveCodeBench: programs from the user's own JSONL, run in the sandbox against their tests; pass@1."""

from __future__ import annotations

import ast
import base64
import io
import json
import pickle
import zlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.messages import Message
from spade_environments import HostFault
from spade_environments.sandbox import CodeRunner, open_code_runner
from spade_evals.grading.answers import code_block
from spade_evals.suite import UnscorableError
from spade_evals.suites.files import DataFile, find_file
from spade_evals.types import Sample, Score, Task

__all__ = ["LiveCodeBenchColumn", "grade_program", "same_output"]

_SECONDS = 6.0
_SYSTEM = (
    "You are an expert Python programmer. You will be given a question (problem specification) and will generate a "
    "correct Python program that matches the specification and passes all tests."
)
_STDIN = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly test on the sample "
    "inputs). Enclose your code within delimiters as follows. Ensure that when the python program runs, it reads the "
    "inputs, runs the algorithm and writes output to STDOUT."
)
_STARTER = (
    "You will use the following starter code to write the solution to the problem and enclose your code within "
    "delimiters."
)
_IMPORTS = (
    "import sys, math, heapq, bisect, itertools, functools, collections, string, re, operator, random\n"
    "from typing import *\nfrom collections import *\nfrom itertools import *\nfrom functools import *\n"
    "from heapq import *\nfrom bisect import *\nfrom math import *\nsys.setrecursionlimit(50000)\n"
)
_CALL = """
import json as _json
_arguments = [_json.loads(line) for line in _read().split("\\n") if line.strip()]
_found = (Solution() if "Solution" in globals() else None)
_function = getattr(_found, {name!r}) if _found is not None else globals()[{name!r}]
_value = _function(*_arguments)
_write("\\n" + _json.dumps(_value) + "\\n")
"""
_GUARD = "import sys as _sys\n_read, _write = _sys.stdin.read, _sys.stdout.write\n"


@dataclass(slots=True, kw_only=True)
class LiveCodeBenchColumn:
    """`livecodebench*.jsonl` or `test6.jsonl`, in the published format; which of them is named in the log."""

    name: str
    data: Path | None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _runner: CodeRunner | None = None

    def lacks(self) -> str:
        if self._path() is not None:
            return ""
        return (
            f"no livecodebench*.jsonl and no test6.jsonl below --data {self.data or 'DIR (not given)'}; "
            "download release_v6 of huggingface.co/datasets/livecodebench/code_generation_lite, or its newest part by: "
            "spade-eval setup livecodebench_v6 --data DIR"
        )

    def load(self) -> tuple[tuple[Task, ...], Mapping[str, str]]:
        path = self._path()
        if path is None:
            raise UsageError(self.lacks())
        file = DataFile(path)
        tasks = tuple(self._task(row, f"{path}, line {number}") for number, row in file.lines())
        return tasks, {f"{path.name} ({len(tasks)} problems)": file.sha256}

    async def opened(self, task: Task, epoch: int) -> Task:
        return task

    async def grade(self, task: Task, sample: Sample) -> Score:
        if self._runner is None:
            self._runner = await self._stack.enter_async_context(open_code_runner())
        program = code_block(sample.response)
        if program is None:
            return Score(value=0.0, reason="no code block")
        return await grade_program(self._runner, program, task.data)

    async def aclose(self) -> None:
        await self._stack.aclose()
        self._runner = None

    def _path(self) -> Path | None:
        return find_file(self.data, ("livecodebench*.jsonl", "test6.jsonl"))

    def _task(self, row: Mapping[str, Any], where: str) -> Task:
        try:
            metadata = json.loads(row.get("metadata") or "{}")
            tests = [*json.loads(row["public_test_cases"]), *_private_tests(row.get("private_test_cases") or "[]")]
            starter = str(row.get("starter_code") or "")
            text = _prompt(str(row["question_content"]), starter)
            data = {"tests": tests, "function": metadata.get("func_name")}
            messages = (Message(role="system", content=_SYSTEM), Message(role="user", content=text))
            return Task(
                id=f"livecodebench/{row['question_id']}",
                column=self.name,
                messages=messages,
                target=f"{len(tests)} tests",
                data=data,
                tags={"difficulty": str(row.get("difficulty", "unknown"))},
            )
        except (KeyError, TypeError, ValueError, pickle.UnpicklingError, zlib.error) as error:
            raise UsageError(f"{where} is no problem of LiveCodeBench ({type(error).__name__}: {error})") from error


async def grade_program(runner: CodeRunner, program: str, data: Mapping[str, Any]) -> Score:
    """1 where every test passes; the first that does not gives the reason.

    Raises:
        UnscorableError: a problem without tests.
    """
    if not data["tests"]:
        raise UnscorableError("the problem has no tests")
    try:
        ast.parse(program)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Score(value=0.0, reason=f"no Python program: {type(error).__name__}")
    for number, test in enumerate(data["tests"]):
        called = test.get("testtype") == "functional" and data["function"]
        source = _GUARD + _IMPORTS + program + (_CALL.format(name=data["function"]) if called else "")
        try:
            run = await runner.run_code(source, stdin=str(test["input"]), timeout=_SECONDS)
        except HostFault as fault:
            raise InfrastructureError(f"the sandbox could not run a program: {fault}") from fault
        if not run.ok:
            return Score(value=0.0, reason=f"test {number}: {run.outcome.value}")
        wanted = str(test["output"])
        right = _same_value(run.stdout, wanted) if called else same_output(run.stdout, wanted)
        if not right:
            return Score(value=0.0, reason=f"test {number}: wrong answer")
    return Score(value=1.0)


def same_output(found: str, wanted: str) -> bool:
    """Equal line by line, spaces at the ends left out, or number by number."""
    ours, theirs = ([line.strip() for line in text.strip().split("\n")] for text in (found, wanted))
    return len(ours) == len(theirs) and all(a == b or _same_numbers(a, b) for a, b in zip(ours, theirs, strict=True))


def _same_numbers(a: str, b: str) -> bool:
    try:
        return [Decimal(word) for word in a.split()] == [Decimal(word) for word in b.split()]
    except InvalidOperation:
        return False


def _same_value(stdout: str, wanted: str) -> bool:
    try:
        return bool(json.loads(stdout.rstrip("\n").rsplit("\n", 1)[-1]) == json.loads(wanted))
    except (ValueError, RecursionError):
        return False


class _PlainUnpickler(pickle.Unpickler):
    """Reads strings and containers, and refuses every name: the published tests are one pickled string."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the private tests name {module}.{name}")


def _private_tests(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        packed = zlib.decompress(base64.b64decode(text))
        found = json.loads(_PlainUnpickler(io.BytesIO(packed)).load())
    return list(found)


def _prompt(question: str, starter: str) -> str:
    asked = f"{_STARTER}\n```python\n{starter}\n```" if starter else f"{_STDIN}\n```python\n# YOUR CODE HERE\n```"
    return (
        f"### Question:\n{question}\n\n### Format: {asked}\n\n### Answer: (use the provided format with backticks)\n\n"
    )
