"""Fixed pools of puzzle libraries, Reasoning Gym and RLVE, behind the environment contract.

Each of a library's tasks is an environment with one tool, `answer`, and one turn; a seed is an instance. Puzzles are
set and answers scored in jailed processes, since these libraries evaluate answers and reseed generators that all share.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spade_agents.errors import UsageError
from spade_agents.rollout import OwnEnvironment
from spade_environments import (
    Action,
    EnvironmentFault,
    FaultKind,
    HostFault,
    Observation,
    Reply,
    Skill,
    StepResult,
    ToolCall,
    ToolSpec,
)
from spade_environments.env import OrderError
from spade_environments.validation import ArgumentValidator, check_reply, clean_text
from spade_evals.grading.jailed import JailedGrader
from spade_tools.refusals import malformed_result, over_result

__all__ = ["PuzzleEnv", "PuzzleTask", "is_program", "reasoning_gym", "reasoning_gym_hard", "rlve"]

_HARD = Path(__file__).parent / "suites" / "reasoning_gym_hard.json"
_UNFIT = frozenset({"jugs", "knight_swap"})
"""Tasks of Reasoning Gym that do not take their own answer, or cannot always set a puzzle."""
_SKILLS = {
    "math": Skill.MATHEMATICAL_REASONING,
    "algorithmic": Skill.OPTIMIZATION,
    "cognition": Skill.PATTERN_RECOGNITION,
    "logic": Skill.LOGICAL_DEDUCTION,
}
_LEVELS = 3
_UNSET = "UnsetPuzzle"
"""How the jailed side tells that the puzzle could not be set, whatever the answer."""
_CODE = re.compile(r"__|\b(?:import|lambda|exec|eval|compile|open|getattr|setattr|globals|locals|vars|breakpoint)\b")
_ANSWER = ToolSpec(
    name="answer",
    description="Give the final answer, and nothing else.",
    parameters={
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)


def is_program(answer: str) -> bool:
    """Whether an answer looks like code: some of the libraries' scorers would run it."""
    return _CODE.search(answer) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PuzzleTask:
    """One task of a library.

    Attributes:
        grader: that sets and scores it, in a process of its own.
        name: the library's.
        parameters: of its difficulty.
        levels: how many a seed chooses from, each harder than the one before.
    """

    grader: JailedGrader
    name: str
    parameters: Mapping[str, Any]
    levels: int = 0

    async def ask(self, seed: int, answer: str | None = None) -> Any:
        """The puzzle of a seed, as question and answer; or, given an answer, its score.

        Raises:
            EnvironmentFault: the library failed.
            HostFault: its process did.
        """
        number = seed % 2**31  # some of them seed numpy
        level = {"level": number % self.levels} if self.levels else {}
        arguments = {"name": self.name, "parameters": {**self.parameters, **level}, "seed": number, "answer": answer}
        phase = "reset" if answer is None else "step"
        try:
            graded = await self.grader.grade(**arguments)
        except Exception as error:
            raise HostFault(FaultKind.HOST_FAULT, phase, str(error)) from error
        if graded.error and answer is None:
            raise EnvironmentFault(FaultKind.ENV_ERROR, phase, graded.error)
        if graded.is_ours or graded.error.startswith(_UNSET):
            raise HostFault(FaultKind.HOST_FAULT, phase, f"a puzzle that was set before: {graded.error}")
        return 0.0 if graded.error else graded.value


class PuzzleEnv:
    """The `Env` Protocol over one task: a question, and a score in [0, 1] for the answer."""

    tools = (_ANSWER,)
    max_turns = 1

    def __init__(self, task: PuzzleTask) -> None:
        self._task = task
        self._validator = ArgumentValidator(self.tools)
        self._seed: int | None = None
        self._gold = ""
        self._last: StepResult | None = None

    async def reset(self, seed: int) -> Observation:
        """The puzzle of `seed`."""
        puzzle = await self._task.ask(seed)
        self._seed, self._gold, self._last = seed, str(puzzle["answer"]), None
        return Observation(role="user", text=clean_text(str(puzzle["question"])))

    async def step(self, action: Action) -> StepResult:
        """Score an answer; what is no call of `answer` is an error that the agent reads."""
        if self._last is not None:
            return over_result(action, self._last)
        if self._seed is None:
            raise OrderError("call reset(seed) before step")
        if isinstance(action, Reply):
            error = check_reply(action.text)
            if error:
                return malformed_result(action, error)
            told = Observation(role="user", text="Error: answer by the tool answer.")
            return StepResult(observation=told, reward=0.0, terminated=False, truncated=False)
        error = self._validator.check(action, [_ANSWER.name])
        if error:
            return malformed_result(action, error)
        answer = str(action.arguments["answer"]).strip()
        score = 0.0 if is_program(answer) else float(await self._task.ask(self._seed, answer))
        told = Observation(role="tool", text="The answer was taken.", call_id=action.id)
        reward = min(max(score, 0.0), 1.0)
        self._last = StepResult(observation=told, reward=reward, terminated=True, truncated=False)
        return self._last

    async def solution(self) -> tuple[Action, ...]:
        """The library's own answer.

        Raises:
            EnvironmentFault: it has none for this puzzle, which many answers may solve.
        """
        if not self._gold:
            raise EnvironmentFault(FaultKind.REJECT, "solution", "the library has no answer of its own")
        return (ToolCall(name=_ANSWER.name, arguments={"answer": self._gold}, id="gold"),)

    async def aclose(self) -> None:
        """Nothing is held between calls."""


def reasoning_gym() -> Sequence[OwnEnvironment]:
    """Reasoning Gym's tasks at the library's own difficulty.

    Raises:
        UsageError: it is not installed.
    """
    return _reasoning_gym(is_hard=False)


def reasoning_gym_hard() -> Sequence[OwnEnvironment]:
    """Reasoning Gym's tasks with the parameters that the evaluation's columns have."""
    return _reasoning_gym(is_hard=True)


def rlve() -> Sequence[OwnEnvironment]:
    """RLVE's environments, each seed at one of its first three levels.

    Raises:
        UsageError: it is not installed.
    """
    _wanted("Gym", "rlve-gym")
    names = sorted(importlib.import_module("Gym.environments").identifier2environment)
    grader = JailedGrader(grader="rlve_puzzles", seconds=60, start_seconds=120.0, memory=8 * 1024**3)
    return [
        _environment("rlve", PuzzleTask(grader=grader, name=name, parameters={}, levels=_LEVELS), Skill.OPTIMIZATION)
        for name in names
    ]


def _reasoning_gym(*, is_hard: bool) -> Sequence[OwnEnvironment]:
    _wanted("reasoning_gym", "reasoning-gym")
    grader = JailedGrader(grader="reasoning_gym_puzzles", seconds=20)
    rows: dict[str, dict[str, Any]] = json.loads(_HARD.read_text(encoding="utf-8"))
    return [
        _environment(
            "reasoning_gym",
            PuzzleTask(grader=grader, name=name, parameters=row["parameters"] if is_hard else {}),
            _SKILLS[row["column"]],
        )
        for name, row in sorted(rows.items())
        if name not in _UNFIT
    ]


def _environment(library: str, task: PuzzleTask, skill: Skill) -> OwnEnvironment:
    generator = f"{library}/{task.name}"
    return OwnEnvironment(
        name=generator, open=lambda: PuzzleEnv(task), skill=skill, domain="puzzles", generator=generator
    )


def _wanted(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise UsageError(f"the package {package} is not installed, which this pool is made of: pip install {package}")
