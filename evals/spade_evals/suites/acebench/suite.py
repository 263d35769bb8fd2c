"""`acebench`: normal, special and agent over the user's copy of the data, each graded by the protocol's rules."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from spade_agents.errors import ContextExhaustedError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Sampling
from spade_agents.seeds import derive_seed
from spade_evals.grading.jailed import JailedGrader
from spade_evals.suite import Missing, Runtime, SuiteData, UnscorableError
from spade_evals.suites.acebench import prompts
from spade_evals.suites.acebench.agent import agent_lacks, agent_task, grade_agent, open_classes, play_agent
from spade_evals.suites.acebench.checker import check_calls, check_special
from spade_evals.suites.acebench.environment import scenarios_digest
from spade_evals.suites.acebench.parser import CallError, first_brackets, parse_calls
from spade_evals.suites.files import DataFile
from spade_evals.types import ColumnSettings, Sample, SampleOutcome, Score, Task

__all__ = ["AGENT", "NORMAL", "PROTOCOLS", "SPECIAL", "AceBenchSuite"]

NORMAL = tuple(
    f"normal_{name}"
    for name in (
        "single_turn_single_function", "single_turn_parallel_function", "multi_turn_user_adjust",
        "multi_turn_user_switch", "similar_api", "preference", "atom_bool", "atom_enum", "atom_number", "atom_list",
        "atom_object_deep", "atom_object_short",
    )
)  # fmt: skip
SPECIAL = ("special_incomplete", "special_error_param", "special_irrelevant")
AGENT = ("agent_multi_step", "agent_multi_turn")
PROTOCOLS = ("default", "english")
"""Upstream asks its English multi_step in Chinese, which `default` follows; `english` asks in English."""
_PARTS = {"normal": NORMAL, "special": SPECIAL, "agent": AGENT}
_WEIGHTS = {"normal": 0.578, "special": 0.2676, "agent": 0.1545}
_SETTINGS = ColumnSettings(n=1, sampling=Sampling(temperature=0.7, max_tokens=16_384))


@dataclass(slots=True, kw_only=True)
class AceBenchSuite:
    """The English part; `part` is a group (`normal`, `special`, `agent`) or categories, comma-separated.

    A dialogue of `normal` counts where all its steps are right, one of `agent` where its end states are.
    """

    part: str = ""
    data: Path | None = None
    user_model: str | None = None
    grading: str = "1"
    protocol: str = "default"
    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    concurrency: int = 64
    _classes: JailedGrader | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise UsageError(f"acebench has no protocol {self.protocol!r}; wanted one of: {', '.join(PROTOCOLS)}")
        chosen = _chosen(self.part)
        self.columns = dict.fromkeys(chosen, _SETTINGS)
        whole = {name: _WEIGHTS[kind] / len(names) for kind, names in _PARTS.items() for name in names}
        self.weights = dict.fromkeys(chosen, 1.0) if self.part else whole

    @property
    def name(self) -> str:
        return f"acebench:{self.part}" if self.part else "acebench"

    def preflight(self) -> Sequence[Missing]:
        folder = self._folder()
        if folder is None:
            told = f"no data_all/data_en below --data {self.data or 'DIR (not given)'}: a copy of ACEBench/ACEBench"
            return [Missing(column=name, what=told) for name in self.columns]
        lacking = []
        for name in self.columns:
            absent = [path for path in _files(folder, name) if not path.is_file()]
            what = f"no file {absent[0]}" if absent else ""
            if not what and name in AGENT:
                what = agent_lacks(name, self.user_model)
            lacking += [Missing(column=name, what=what)] if what else []
        return lacking

    def load(self, columns: Sequence[str]) -> SuiteData:
        if not columns:
            return SuiteData(tasks=())
        folder = self._folder()
        if folder is None:
            raise UsageError("no data of ACEBench was found; give its folder with --data")
        tasks: list[Task] = []
        checksums: dict[str, str] = {}
        for name in columns:
            questions, answers = (DataFile(path) for path in _files(folder, name))
            checksums |= {f"{name}": questions.sha256, f"{name} (answers)": answers.sha256}
            gold = {row["id"]: row["ground_truth"] for _, row in answers.lines()}
            if name in AGENT:
                checksums["scenario classes"] = scenarios_digest()
                tasks += [agent_task(name, row, gold) for _, row in questions.lines()]
                continue
            steps = [_step(name, row, gold) for _, row in questions.lines()]
            tasks += [_task(name, key, list(found)) for key, found in groupby(steps, key=lambda one: one["task"])]
        return SuiteData(tasks=tuple(tasks), checksums=checksums)

    async def attempt(self, task: Task, epoch: int, runtime: Runtime) -> Sample:
        """A dialogue of `agent`; else every step of the task is one completion.

        The later steps hold the official answers to earlier ones.
        """
        sampling = self.columns[task.column].sampling
        if task.column in AGENT:
            if self._classes is None:
                self._classes = open_classes()
            chinese = self.protocol == "default"
            return await play_agent(task, epoch, runtime, self._classes, sampling=sampling, chinese=chinese)
        started = time.monotonic()
        said: list[str] = []
        messages: list[Message] = []
        tokens_in = tokens_out = 0
        finish = ""
        for number, step in enumerate(task.data["steps"]):
            try:
                completion = await runtime.policy.complete(
                    Conversation(messages=step["messages"]),
                    sampling,
                    seed=derive_seed(runtime.seed, "eval", task.id, number, epoch, runtime.draw),
                    deadline=started + runtime.seconds,
                )
            except ContextExhaustedError:
                said.append("")
                finish = "context"
                continue
            said.append(completion.text)
            messages += [*step["messages"], Message(role="assistant", content=completion.text)]
            tokens_in += completion.usage.prompt_tokens
            tokens_out += completion.usage.completion_tokens
            finish = "length" if completion.finish == "length" or finish == "length" else finish or completion.finish
        sample = Sample(
            id=task.id, epoch=epoch, attempt=0, column=task.column, outcome=SampleOutcome.SCORED,
            messages=tuple(messages), response=json.dumps(said, ensure_ascii=False), target=task.target, finish=finish,
            tokens_in=tokens_in, tokens_out=tokens_out, seconds=time.monotonic() - started,
        )  # fmt: skip
        try:
            score = await self.grade(task, sample)
        except UnscorableError as error:
            return replace(sample, outcome=SampleOutcome.UNSCORABLE, reason=str(error))
        cut = finish if finish in ("length", "context") and score.value < 1.0 else score.reason
        return replace(sample, score=score.value, reason=cut)

    async def grade(self, task: Task, sample: Sample) -> Score:
        if task.column in AGENT:
            return grade_agent(task, sample)
        responses: list[str] = json.loads(sample.response)
        for number, (step, response) in enumerate(zip(task.data["steps"], responses, strict=True)):
            fault = _fault(task.column, step, response)
            if fault:
                return Score(value=0.0, reason=f"step {number}: {fault}" if len(responses) > 1 else fault)
        return Score(value=1.0)

    async def aclose(self) -> None:
        if self._classes is not None:
            await self._classes.aclose()

    def _folder(self) -> Path | None:
        if self.data is None:
            return None
        tried = (self.data, self.data / "data_en", self.data / "data_all" / "data_en")
        below = (path / name for path in (self.data, self.data / "acebench") for name in ("data_all/data_en",))
        return next((path for path in (*tried, *below) if (path / "possible_answer").is_dir()), None)


def _fault(column: str, step: Mapping[str, Any], response: str) -> str:
    """Why a response is wrong; empty where it is right.

    Raises:
        UnscorableError: the schema or the gold answer cannot be read.
    """
    try:
        if column in SPECIAL:
            return check_special(response, step["gold"], column)
        # The protocol takes every space out of a dialogue's answers before it reads them.
        text = "".join(response.split()) if "multi_turn" in column else first_brackets(response)
        if text is None:
            return "no brackets"
        calls = parse_calls(text)
        return check_calls(step["functions"], calls, step["gold"])
    except CallError as error:
        return f"format: {error}"[:120]
    except (KeyError, TypeError, AttributeError) as error:
        return f"not comparable: {type(error).__name__} {error}"[:120]


def _chosen(part: str) -> tuple[str, ...]:
    every = (*NORMAL, *SPECIAL, *AGENT)
    if not part:
        return every
    names = [name for given in part.split(",") for name in _PARTS.get(given, (given,))]
    for name in names:
        if name not in every:
            raise UsageError(f"acebench has no part {name!r}; it has {', '.join(_PARTS)} and: {', '.join(every)}")
    return tuple(dict.fromkeys(names))


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"data_{name}.json", folder / "possible_answer" / f"data_{name}.json"


def _step(column: str, row: Mapping[str, Any], gold: Mapping[str, Any]) -> dict[str, Any]:
    try:
        identity, functions = str(row["id"]), row["function"]
        # The protocol writes the Python form of the list into the prompt.
        fields = {"time": row.get("time", ""), "function": str(functions), "profile": row.get("profile", "")}
        template = (
            prompts.SPECIAL if column in SPECIAL else prompts.PREFERENCE if "preference" in column else prompts.NORMAL
        )
        system, user = template.format(**fields), prompts.USER.format(question=row["question"])
        messages = (Message(role="system", content=system), Message(role="user", content=user))
        task = identity.rsplit("_", 1)[0] if "multi_turn" in column else identity
        return {"task": task, "messages": messages, "functions": functions, "gold": gold[identity]}
    except KeyError as error:
        raise UsageError(f"an entry of {column} has no {error}; give an unchanged copy of ACEBench's data") from error


def _task(column: str, key: str, steps: Sequence[Mapping[str, Any]]) -> Task:
    target = json.dumps([step["gold"] for step in steps], ensure_ascii=False)
    return Task(id=key, column=column, messages=steps[0]["messages"], target=target, data={"steps": steps})
