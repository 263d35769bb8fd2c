"""GPQA-Diamond: multiple choice from the user's own CSV or zip; the options are shuffled by seed and epoch."""

from __future__ import annotations

import csv
import io
import random
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from spade_agents.errors import UsageError
from spade_agents.messages import Message
from spade_agents.seeds import derive_seed
from spade_evals.grading.answers import choice
from spade_evals.suites.files import DataFile, find_file
from spade_evals.types import Sample, Score, Task

__all__ = ["GpqaColumn"]

_KEYS = ("Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
_ASK = "Please reason step by step, and put the letter of your final answer within \\boxed{}."
_PASSWORD = b"deserted-untie-orchid"
"""Of the published zip: it keeps the file from crawlers, and is printed beside it."""


@dataclass(slots=True, kw_only=True)
class GpqaColumn:
    """`gpqa_diamond.csv`, or a zip that holds it; the data is gated and never vendored."""

    name: str
    data: Path | None
    seed: int

    def lacks(self) -> str:
        if self._path() is not None:
            return ""
        return (
            f"no gpqa_diamond.csv and no *gpqa*.zip below --data {self.data or 'DIR (not given)'}; "
            "accept its terms at huggingface.co/datasets/Idavidrein/gpqa, then, with a token in HF_TOKEN: "
            "spade-eval setup gpqa_diamond --data DIR"
        )

    def load(self) -> tuple[tuple[Task, ...], Mapping[str, str]]:
        path = self._path()
        if path is None:
            raise UsageError(self.lacks())
        file = DataFile(path)
        content = _unzipped(file) if path.suffix == ".zip" else file.content
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
        tasks = tuple(self._task(number, row, path) for number, row in enumerate(rows))
        return tasks, {path.name: file.sha256}

    async def opened(self, task: Task, epoch: int) -> Task:
        options = list(task.data["options"])
        order = list(range(4))
        random.Random(derive_seed(self.seed, "gpqa", task.id, epoch)).shuffle(order)
        lines = [f"{letter}. {options[place]}" for letter, place in zip("ABCD", order, strict=True)]
        text = "\n\n".join([str(task.data["question"]), "\n".join(lines), _ASK])
        return replace(task, messages=(Message(role="user", content=text),), target="ABCD"[order.index(0)])

    async def grade(self, task: Task, sample: Sample) -> Score:
        letter = choice(sample.response)
        return Score(value=float(letter == task.target), reason="" if letter else "no letter")

    async def aclose(self) -> None: ...

    def _path(self) -> Path | None:
        return find_file(self.data, ("gpqa_diamond.csv", "*gpqa*.zip"))

    def _task(self, number: int, row: Mapping[str, str], path: Path) -> Task:
        missing = [key for key in _KEYS if not (row.get(key) or "").strip()]
        if missing:
            raise UsageError(f"{path}, row {number + 1}, has no {missing[0]!r}; wanted the columns {', '.join(_KEYS)}")
        question, *options = (row[key].strip() for key in _KEYS)
        return Task(
            id=f"gpqa/{row.get('Record ID') or format(number, '03d')}",
            column=self.name,
            data={"question": question, "options": tuple(options)},
        )


def _unzipped(file: DataFile) -> bytes:
    with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
        names = [name for name in archive.namelist() if name.endswith("gpqa_diamond.csv")]
        if not names:
            raise UsageError(f"{file.path} holds no gpqa_diamond.csv; it has {', '.join(archive.namelist()[:5])}")
        try:
            return archive.read(names[0], pwd=_PASSWORD)
        except RuntimeError as error:
            raise UsageError(f"{file.path} cannot be unpacked ({error}); unpack it and give the CSV") from error
