"""`lm:TASK`: generation tasks of lm-evaluation-harness by name; prompts, filters and metrics are its own."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from spade_agents.errors import UsageError
from spade_agents.messages import Message
from spade_agents.policy.protocol import Sampling
from spade_evals.grading.jailed import JailedGrader
from spade_evals.suite import Missing, Runtime, SuiteData, UnscorableError, complete_task
from spade_evals.types import ColumnSettings, Sample, Score, Task

__all__ = ["LmSuite"]

_FEWSHOT_SEED = 1234
_MAX_TOKENS = 256
"""Both are lm-eval's own where a task says nothing."""


class _Named(NamedTuple):
    """A task as a user names it: `TASK` or `TASK/FILTER`."""

    task: str
    filter: str


@dataclass(slots=True, kw_only=True)
class LmSuite:
    """Tasks of lm-eval, comma-separated; of several filters the first counts, unless one is named as `TASK/FILTER`.

    Its YAML files below `data` are tasks too. A task's few-shot examples stand in one user message, as lm-eval's own
    chat models have them; an answer is cut at the first of the task's stop strings. It is graded in a jail.
    """

    part: str
    data: Path | None = None
    grading: str = "1"
    protocol: str = "default"
    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    packages: tuple[str, ...] = ("lm-eval", "datasets")
    concurrency: int = 64
    _built: dict[str, Any] = field(default_factory=dict)
    _paths: dict[str, Path] = field(default_factory=dict)
    _missing: dict[str, str] = field(default_factory=dict)
    _grader: JailedGrader | None = None

    def __post_init__(self) -> None:
        names = [name for name in self.part.split(",") if name]
        if not names:
            raise UsageError("--suite lm wants a task of lm-eval: lm:gsm8k")
        if importlib.util.find_spec("lm_eval") is None:
            told = "lm-eval is not installed: pip install 'spade-agents[lm]'"
            self._missing = dict.fromkeys(names, told)
        else:
            self._build(names)
        self.columns = {name: self._settings(name) for name in names}

    @property
    def name(self) -> str:
        return f"lm:{self.part}"

    def preflight(self) -> Sequence[Missing]:
        return [Missing(column=name, what=what) for name, what in self._missing.items()]

    def load(self, columns: Sequence[str]) -> SuiteData:
        """Every document of the chosen tasks, with its prompt."""
        tasks: list[Task] = []
        checksums: dict[str, str] = {}
        for name in columns:
            built = self._built[name]
            built.set_fewshot_seed(seed=_FEWSHOT_SEED)
            digest = hashlib.sha256(str(built.VERSION).encode())
            for number, doc in enumerate(built.eval_docs):
                task = _task(name, number, built, dict(doc))
                digest.update(json.dumps([task.data["doc"], [m.content for m in task.messages]], default=str).encode())
                tasks.append(task)
            checksums[name] = digest.hexdigest()
        return SuiteData(tasks=tuple(tasks), checksums=checksums)

    async def attempt(self, task: Task, epoch: int, runtime: Runtime) -> Sample:
        return await complete_task(self, task, epoch, runtime)

    async def grade(self, task: Task, sample: Sample) -> Score:
        """The task's first metric, of what its filter leaves of the answer.

        Raises:
            UnscorableError: lm-eval cannot make the task, or its metric is no share.
        """
        if self._grader is None:
            readable = [] if self.data is None else [self.data]
            self._grader = JailedGrader(grader="lm", readable=readable, start_seconds=180, seconds=20)
        built = self._built[task.column]
        graded = await self._grader.grade(
            path=str(self._paths[task.column]),
            row=_first_row(built),
            doc=task.data["doc"],
            answer=_cut(sample.response, built.config.generation_kwargs or {}),
            filter=_named(task.column).filter,
        )
        if graded.is_ours:
            raise UnscorableError(f"lm-eval could not make the task: {graded.error}")
        if graded.error:
            return Score(value=0.0, reason=f"lm-eval could not grade it: {graded.error}"[:200])
        if not isinstance(graded.value, float) or not 0.0 <= graded.value <= 1.0:
            raise UnscorableError(f"the task's metric is {graded.value!r}; wanted a share for each answer")
        return Score(value=graded.value)

    async def aclose(self) -> None:
        if self._grader is not None:
            await self._grader.aclose()

    def _build(self, names: Sequence[str]) -> None:
        """Tasks by name; what keeps one from running is kept for the preflight.

        Raises:
            UsageError: no such task, or one that is no generation.
        """
        from lm_eval.tasks._yaml_loader import load_yaml

        for name in names:
            wanted = _named(name)
            manager = _manager(str(self.data or ""))
            if wanted.task not in manager.all_subtasks:
                manager = _manager("")
            if wanted.task not in manager.all_subtasks:
                raise UsageError(f"lm-eval has no task {wanted.task!r}{_near(wanted.task, manager)}")
            path = Path(str(manager.task_index[wanted.task].yaml_path))
            _refuse_unfit(wanted, load_yaml(path, resolve_func=False))
            try:
                built = manager.load(wanted.task)["tasks"][wanted.task]
            except Exception as error:  # whatever keeps its data from coming
                told = f"{type(error).__name__}: {error}".partition("\n")[0][:300]
                self._missing[name] = f"lm-eval cannot load it, and may need a network for its data: {told}"
                continue
            filters = [one.name for one in built._filters]
            if wanted.filter and wanted.filter not in filters:
                raise UsageError(f"{wanted.task!r} has no filter {wanted.filter!r}; it has: {', '.join(filters)}")
            self._built[name], self._paths[name] = built, path

    def _settings(self, name: str) -> ColumnSettings:
        said = dict(self._built[name].config.generation_kwargs or {}) if name in self._built else {}
        sampling = Sampling(
            temperature=float(said.get("temperature", 0.0)) if said.get("do_sample") else 0.0,
            top_p=float(said.get("top_p", 1.0)) if said.get("do_sample") else 1.0,
            max_tokens=int(said.get("max_gen_toks") or said.get("max_tokens") or _MAX_TOKENS),
        )
        return ColumnSettings(n=1, sampling=sampling)


def _named(name: str) -> _Named:
    task, _, chosen = name.partition("/")
    return _Named(task, chosen)


@functools.lru_cache(maxsize=4)
def _manager(folder: str) -> Any:
    """The tasks below a folder; for an empty name lm-eval's own, whose thousands of files take seconds to list."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=folder or None, include_defaults=not folder)


def _near(task: str, manager: Any) -> str:
    import difflib

    if task in manager.all_tasks:
        return ", which is a group; name one of its tasks"
    near = difflib.get_close_matches(task, manager.all_subtasks, n=1)
    return f"; did you mean {near[0]!r}?" if near else "; its list: lm-eval ls tasks"


def _refuse_unfit(wanted: _Named, settings: Mapping[str, Any]) -> None:
    kind = settings.get("output_type", "generate_until")
    if kind != "generate_until":
        raise UsageError(
            f"the task {wanted.task!r} is {kind}, which needs the probabilities of given texts; wanted generate_until"
        )
    if settings.get("unsafe_code"):
        raise UsageError(f"the task {wanted.task!r} runs the model's code by itself; use reasoning:livecodebench_v6")


def _task(column: str, number: int, built: Any, doc: dict[str, Any]) -> Task:
    told = built.fewshot_context(
        doc,
        num_fewshot=built.config.num_fewshot or 0,
        apply_chat_template=True,
        chat_template=lambda messages, **_: json.dumps(messages),
        gen_prefix=built.doc_to_prefix(doc),
    )
    messages = [Message(role=said["role"], content=said["content"]) for said in json.loads(told)]
    if messages[-1].role == "assistant":  # a beginning of the answer: told to the model, since it cannot be put there
        asked, begun = messages[-2:]
        messages[-2:] = [Message(role="user", content=f"{asked.content}\n{begun.content}")]
    return Task(
        id=f"{column}/{number}", column=column, messages=tuple(messages), target=str(built.doc_to_target(doc)),
        data={"doc": doc},
    )  # fmt: skip


def _first_row(built: Any) -> dict[str, Any]:
    """One row of the data as it came: with it the jailed side can make the task without its data."""
    split = built.config.test_split or built.config.validation_split
    return dict(built.dataset[split][0])


def _cut(text: str, settings: Mapping[str, Any]) -> str:
    """The answer up to the first of the task's stop strings."""
    until = settings.get("until") or []
    for stop in [until] if isinstance(until, str) else until:
        text = text.split(stop, 1)[0] if stop else text
    return text
