"""AIME: problems with a whole number or a formula as answer, graded by the last boxed answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spade_agents.errors import UsageError
from spade_agents.messages import Message
from spade_evals.grading.answers import boxed, same_text
from spade_evals.grading.jailed import JailedGrader
from spade_evals.suites.files import DataFile, find_file
from spade_evals.types import Sample, Score, Task

__all__ = ["AimeColumn", "grade_math"]

_ASK = "Please reason step by step, and put your final answer within \\boxed{}."
_LONGEST = 400
"""Characters of an answer that is worth comparing."""


@dataclass(slots=True, kw_only=True)
class AimeColumn:
    """A file of `{"prompt", "answer"}` lines named after the column, such as `aime25.jsonl`.

    The hub's files have a `problem` in its place, to which the request for a boxed answer is added.
    """

    name: str
    data: Path | None
    _grader: JailedGrader = field(default_factory=lambda: JailedGrader(grader="math"))

    def lacks(self) -> str:
        if self._path() is not None:
            return ""
        return (
            f"no {self.name}.jsonl ({{prompt, answer}} a line) below --data {self.data or 'DIR (not given)'}; "
            f"from the hub: spade-eval setup {self.name} --data DIR"
        )

    def load(self) -> tuple[tuple[Task, ...], Mapping[str, str]]:
        path = self._path()
        if path is None:
            raise UsageError(self.lacks())
        file = DataFile(path)
        tasks = tuple(self._task(place, row, f"{path}, line {line}") for place, (line, row) in enumerate(file.lines()))
        return tasks, {path.name: file.sha256}

    async def opened(self, task: Task, epoch: int) -> Task:
        return task

    async def grade(self, task: Task, sample: Sample) -> Score:
        return await grade_math(self._grader, task.target, sample.response)

    async def aclose(self) -> None:
        await self._grader.aclose()

    def _path(self) -> Path | None:
        return find_file(self.data, (f"{self.name}.jsonl",))

    def _task(self, place: int, row: Mapping[str, object], where: str) -> Task:
        prompt = row.get("prompt")
        if "problem" in row and prompt is None:
            prompt = f"{row['problem']}\n{_ASK}"
        if not isinstance(prompt, str) or "answer" not in row:
            raise UsageError(f'{where}: wanted {{"prompt": text, "answer": ...}}, found the keys {sorted(row)}')
        message = Message(role="user", content=prompt)
        return Task(id=f"{self.name}/{place:03d}", column=self.name, messages=(message,), target=str(row["answer"]))


async def grade_math(grader: JailedGrader, gold: str, response: str) -> Score:
    """Equality of the last boxed answer with the gold one: as text, else as formulas."""
    answer = boxed(response)
    if answer is None:
        return Score(value=0.0, reason="no boxed answer")
    if same_text(gold, answer):
        return Score(value=1.0)
    if len(answer) > _LONGEST:
        return Score(value=0.0, reason="the boxed answer is too long")
    graded = await grader.grade(gold=gold, answer=answer)
    if graded.error:
        return Score(value=0.0, reason=f"not comparable: {graded.error}"[:200])
    return Score(value=float(bool(graded.value)))
