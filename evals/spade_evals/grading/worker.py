"""The jailed side of a grader: reads requests by line, answers each by a line. Run as a script, never imported.

Its requests come from the process that started it (pickles of our own making); the model's text is a string in them.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import pickle
import resource
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, Protocol

_FORK_TRIES = 600
_LONGEST_ANSWER = 65_536
"""Bytes; what a grade says beyond is no answer."""


def main() -> None:
    """Grade everything on standard input; libraries' own prints go nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)
    grader = _GRADERS[sys.argv[1]]()
    seconds = int(sys.argv[2])
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        arguments = pickle.loads(base64.b64decode(line))  # noqa: S301
        answers.write(_answer(grader, arguments, seconds) + "\n")
        answers.flush()


def _answer(grader: Grader, arguments: dict[str, Any], seconds: int) -> str:
    """One line of JSON, from a fork: an answer that hangs in C, or that is a program, ends or changes that fork alone.

    The limit is on the fork's CPU time, so that a loaded machine fails no answer.
    """
    try:
        grader.prepare(arguments)
    except Exception as error:  # the libraries' own faults, told to whoever asked
        return _told({"error": f"{type(error).__name__}: {error}", "ours": True})
    if not grader.forks:
        try:
            return _told({"value": grader.grade(arguments)})
        except Exception as error:
            return _told({"error": f"{type(error).__name__}: {error}"[:400]})
    reader, writer = os.pipe()
    child = _forked()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        try:
            row = {"value": grader.grade(arguments)}
        except BaseException as error:  # what a grader raises on a model's text, SystemExit included, is an answer
            row = {"error": f"{type(error).__name__}: {error}"[:400]}
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(_told(row).encode("utf-8", "backslashreplace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read(_LONGEST_ANSWER).decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    if status or "\n" in said or not said:
        return _told({"error": f"the grade ended with status {status} after at most {seconds} s of CPU time"})
    return said


def _forked() -> int:
    """`os.fork`, waited for where too many processes are alive: the kernel counts those of other jails in."""
    for _ in range(_FORK_TRIES):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.1)
    return os.fork()


def _told(row: dict[str, Any]) -> str:
    return json.dumps(row)


class Grader(Protocol):
    """`prepare` sees what is ours and is kept; `grade` sees the model's text, in a fork where `forks` says so."""

    forks: bool

    def prepare(self, arguments: dict[str, Any]) -> None: ...

    def grade(self, arguments: dict[str, Any]) -> Any: ...


class MathGrader:
    """Whether two LaTeX expressions are equal; only LaTeX is parsed, which evaluates nothing."""

    forks = True

    def __init__(self) -> None:
        import math_verify

        self._library = math_verify
        self._config = [math_verify.LatexExtractionConfig()]

    def prepare(self, arguments: dict[str, Any]) -> None: ...

    def grade(self, arguments: dict[str, Any]) -> bool:
        gold, answer = (
            self._library.parse(f"\\boxed{{{arguments[name]}}}", extraction_config=self._config, parsing_timeout=None)
            for name in ("gold", "answer")
        )
        return bool(self._library.verify(gold, answer, timeout_seconds=None))


class ReasoningGymGrader:
    """The library's own score of an answer."""

    forks = True

    def __init__(self) -> None:
        import reasoning_gym

        self._library = reasoning_gym
        self._made: dict[str, Any] = {}

    def prepare(self, arguments: dict[str, Any]) -> None:
        name = arguments["name"]
        if name not in self._made:
            self._made[name] = self._library.create_dataset(
                name, size=arguments["size"], seed=arguments["seed"], **arguments["parameters"]
            )

    def grade(self, arguments: dict[str, Any]) -> float:
        score = self._made[arguments["name"]].score_answer(answer=arguments["answer"], entry=arguments["entry"])
        return float(score)


class ReasoningGymPuzzles:
    """Sets a puzzle of the library from its seed, or, given an answer, scores it."""

    forks = True

    def __init__(self) -> None:
        import reasoning_gym

        self._library = reasoning_gym

    def prepare(self, arguments: dict[str, Any]) -> None: ...

    def grade(self, arguments: dict[str, Any]) -> dict[str, str] | float:
        made, entry = _set(self._puzzle, arguments)
        if arguments["answer"] is None:
            return {"question": str(entry["question"]), "answer": str(entry["answer"] or "")}
        return float(made.score_answer(answer=arguments["answer"], entry=entry))

    def _puzzle(self, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        made = self._library.create_dataset(
            arguments["name"], size=1, seed=arguments["seed"], **arguments["parameters"]
        )
        return made, made[0]


class RlvePuzzles:
    """Sets a puzzle of RLVE from its seed and level, or, given an answer, scores it."""

    forks = True

    def __init__(self) -> None:
        from Gym.environment import manual_seed
        from Gym.environments import identifier2environment
        from Gym.parameter_controllers import identifier2controller

        self._environments, self._controllers, self._seed = identifier2environment, identifier2controller, manual_seed

    def prepare(self, arguments: dict[str, Any]) -> None: ...

    def grade(self, arguments: dict[str, Any]) -> dict[str, str] | float:
        puzzle = _set(self._puzzle, arguments)
        if arguments["answer"] is None:
            gold = (puzzle.parameter or {}).get("reference_answer")
            return {"question": puzzle.prompt_generator(), "answer": "" if gold is None else str(gold)}
        return float(puzzle.verifier(f"<answer>{arguments['answer']}</answer>")["reward"])

    def _puzzle(self, arguments: dict[str, Any]) -> Any:
        """As the library's own `generator` sets it, but for the thread that this has for a limit of time."""
        controller = self._controllers[arguments["name"]]()
        for _ in range(arguments["parameters"]["level"]):
            controller.update()
        choices, seed = controller.get_parameter_list(), arguments["seed"]
        puzzle = self._environments[arguments["name"]](answer_markers=("<answer>", "</answer>"))
        puzzle.seed, puzzle.parameter = seed, deepcopy(choices[seed % len(choices)])
        self._seed(seed)
        puzzle._generate()
        if puzzle.parameter is None:
            raise ValueError("nothing was generated")
        return puzzle


def _set(puzzle: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]) -> Any:
    """The puzzle that the arguments name; that it cannot be set is no answer's doing, and is told apart."""
    try:
        return puzzle(arguments)
    except Exception as error:
        raise UnsetPuzzle(f"{type(error).__name__}: {error}") from error


class UnsetPuzzle(Exception):  # noqa: N818
    """A library could not set a puzzle."""


class AceBenchScenarios:
    """What ACEBench's scenario classes answer to the last message's calls, and the states that all messages left.

    `ACEBENCH_SCENARIOS` names the folder of the classes. Arguments are data and go to methods of those classes alone.
    """

    forks = True
    _modules: ClassVar[dict[str, str]] = {
        "BaseApi": "base_api",
        "MessageApi": "message",
        "ReminderApi": "reminder",
        "FoodPlatform": "food_services",
        "Travel": "travel",
    }
    _graded: ClassVar[dict[str, tuple[str, ...]]] = {
        "BaseApi": ("wifi", "logged_in"),
        "MessageApi": ("inbox",),
        "ReminderApi": ("reminder_list",),
        "FoodPlatform": ("users", "logged_in_users", "orders"),
        "Travel": ("users", "reservations"),
    }

    def __init__(self) -> None:
        sys.path.insert(0, os.environ["ACEBENCH_SCENARIOS"])
        self._classes = {
            name: getattr(importlib.import_module(f"en.{module}"), name) for name, module in self._modules.items()
        }

    def prepare(self, arguments: dict[str, Any]) -> None:
        self._made(arguments)

    def grade(self, arguments: dict[str, Any]) -> dict[str, Any]:
        instances = self._made(arguments)
        results: list[Any] = []
        for calls in arguments["messages"]:
            results = [_as_read(self._called(instances, name, given)) for name, given in calls]
        states = [
            {name: {key: value for key, value in vars(instance).items() if key in self._graded[name]}}
            for name, instance in instances.items()
        ]
        return {"results": results, "states": json.loads(json.dumps(states, default=str))}

    def _made(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Fresh instances; each gets its own configuration, then that of the device, as upstream does it."""
        instances = {name: self._classes[name]() for name in arguments["classes"]}
        for name, instance in instances.items():
            for part in (name, "BaseApi"):
                instance._load_scenario(deepcopy(arguments["configuration"].get(part, {})), long_context=False)
        return instances

    def _called(self, instances: dict[str, Any], name: str, given: dict[str, Any]) -> Any:
        """A call goes to every class that has such a method; the last answer counts."""
        methods = [getattr(instance, name, None) for instance in instances.values()] if name[:1] != "_" else []
        found = [method for method in methods if callable(method)]
        if not found:
            return f"Error during execution: name '{name}' is not defined"
        try:
            return [method(**given) for method in found][-1]
        except Exception as error:  # told to the agent, as upstream does
            return f"Error during execution: {error}"


class LmGrader:
    """The first metric of a task of lm-eval, of what a filter leaves of an answer.

    A task is made without its data: one row of it stands for every split.
    """

    forks = True

    def __init__(self) -> None:
        from datasets import Dataset, DatasetDict
        from lm_eval.api.instance import Instance
        from lm_eval.api.task import ConfigurableTask
        from lm_eval.tasks._yaml_loader import load_yaml

        class OneRow(ConfigurableTask):  # type: ignore[misc]
            row: ClassVar[dict[str, Any]] = {}

            def download(self, *_: Any, **__: Any) -> None:
                names = (self.config.training_split, self.config.validation_split, self.config.test_split)
                rows = Dataset.from_list([self.row])
                fewshot = self.config.fewshot_split
                self.dataset = DatasetDict({name: rows for name in (*names, fewshot) if name is not None})

        self._one_row, self._instance, self._read = OneRow, Instance, load_yaml
        self._made: dict[str, Any] = {}

    def prepare(self, arguments: dict[str, Any]) -> None:
        path = arguments["path"]
        if path not in self._made:
            settings = self._read(path)
            for key in ("tag", "group", "task_list"):
                settings.pop(key, None)
            task = type("Task", (self._one_row,), {"row": arguments["row"]})
            self._made[path] = task(config=settings)

    def grade(self, arguments: dict[str, Any]) -> float | str:
        task, doc = self._made[arguments["path"]], arguments["doc"]
        request = self._instance("generate_until", doc, ("", {}), 0, ("task", 0, 1), [arguments["answer"]])
        for chosen in task._filters:
            chosen.apply([request])
        name = arguments["filter"] or task._filters[0].name
        found = task.process_results(doc, [request.filtered_resps[name]])
        value = next(iter(found.values()))
        return float(value) if isinstance(value, int | float) else repr(value)[:200]


def _as_read(outcome: Any) -> Any:
    """An outcome as the dialogue shows it: written as text, and read back where that is JSON."""
    text = outcome
    if not isinstance(outcome, str):
        try:
            text = json.dumps(outcome) if isinstance(outcome, dict) else str(outcome)
        except (TypeError, ValueError):
            text = str(outcome)
    try:
        return json.loads(text)
    except ValueError:
        return text


_GRADERS: dict[str, Callable[[], Grader]] = {
    "math": MathGrader,
    "reasoning_gym": ReasoningGymGrader,
    "reasoning_gym_puzzles": ReasoningGymPuzzles,
    "rlve_puzzles": RlvePuzzles,
    "acebench": AceBenchScenarios,
    "lm": LmGrader,
}

if __name__ == "__main__":
    main()
