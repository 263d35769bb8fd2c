"""Grades BFCL results with the package's own checkers, in a jail. Run as a script by bfcl-eval's interpreter.

A line `{"grade": number, "category", "id", "result"}` is answered by `{"grade": number, "value", "error"}`: `value` is
why the result is wrong, empty where it is right; `error` how the check ended where it did not come to that.

Single-turn results are compared as data. The others' calls are evaluated: in forks, each of which grades many, as long
as none of them ends it or takes more CPU seconds than the script's argument.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import sys
import types
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NAME = "spade-eval"
_MEMORY = 4 << 30
_AT_ONCE = 2
_CHUNK = 512


def main() -> None:
    """Grade what is asked for, until the channel ends."""
    out, asked = os.open("main.out", os.O_WRONLY), os.open("main.in", os.O_RDONLY)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.environ |= {"BFCL_PROJECT_ROOT": ".", "OPENAI_API_KEY": "none"}
    checker = _Checker()
    _tell(out, [{"ready": True}])
    left = b""
    while data := os.read(asked, 1 << 20):
        *lines, left = (left + data).split(b"\n")
        rows = [json.loads(line) for line in lines]
        for row in rows:
            checker.load(row["category"])
        _tell(out, (checker.graded(row) for row in rows if not _evaluates(row["category"])))
        _grade_in_forks(checker, [row for row in rows if _evaluates(row["category"])], out)


def _evaluates(category: str) -> bool:
    return category.startswith(("multi_turn", "memory", "web_search"))


def _tell(descriptor: int, rows: Iterable[Mapping[str, Any]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    while data:
        data = data[os.write(descriptor, data) :]


@dataclass(slots=True)
class _Fork:
    """A fork at work; `left` are the rows that it has not answered."""

    child: int
    left: deque[dict[str, Any]]
    said: bytes = b""


def _grade_in_forks(checker: _Checker, rows: list[dict[str, Any]], out: int) -> None:
    """Grade rows whose calls are evaluated; one that ends its fork is told so, and the others go to a new one."""
    size = min(_CHUNK, -(-len(rows) // _AT_ONCE)) or 1
    chunks = deque(deque(rows[start : start + size]) for start in range(0, len(rows), size))
    alive: dict[int, _Fork] = {}
    while chunks or alive:
        while chunks and len(alive) < _AT_ONCE:
            pipe, fork = _forked(checker, chunks.popleft())
            alive[pipe] = fork
        for pipe in select.select(list(alive), [], [])[0]:
            fork = alive[pipe]
            data = os.read(pipe, 1 << 16)
            *lines, fork.said = (fork.said + data).split(b"\n")
            for line in lines:
                fork.left.popleft()
                _tell(out, [json.loads(line)])
            if not data:
                os.close(pipe)
                del alive[pipe]
                _, status = os.waitpid(fork.child, 0)
                if fork.left:
                    lost = fork.left.popleft()
                    told = f"it ended with status {status} after at most {sys.argv[1]} s of CPU time"
                    _tell(out, [{"grade": lost["grade"], "value": "", "error": told}])
                if fork.left:
                    chunks.append(fork.left)


def _forked(checker: _Checker, rows: deque[dict[str, Any]]) -> tuple[int, _Fork]:
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return reading, _Fork(child, rows)
    try:
        for row in rows:
            # A soft limit that moves on with each: CPU time, so that a loaded machine fails no answer.
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = int(used.ru_utime + used.ru_stime) + 1 + int(sys.argv[1])
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
            _tell(writing, [checker.graded(row)])
    finally:
        os._exit(0)


@dataclass(slots=True)
class _Category:
    """Entries and answers by id."""

    entries: dict[str, Any]
    gold: dict[str, Any]


class _Checker:
    """The package's checkers over its own data."""

    def __init__(self) -> None:
        # The package's table of models imports every vendor's client; the checkers ask it one thing of one model, and
        # of the handler that it reads a result, which needs no client either.
        table, client = types.ModuleType("bfcl_eval.constants.model_config"), types.ModuleType("openai")
        vars(table).update(MODEL_CONFIG_MAPPING={_NAME: types.SimpleNamespace(underscore_to_dot=True)})
        vars(client).update(OpenAI=None, RateLimitError=ConnectionError)
        sys.modules |= {table.__name__: table, client.__name__: client}
        from bfcl_eval.eval_checker import eval_runner
        from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
        from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler

        self._runner = eval_runner
        self._instances = vars(multi_turn_utils)
        self._own = frozenset(self._instances)
        self._categories: dict[str, _Category] = {}
        # Its constructor opens a client with certificates; reading results needs neither.
        self._handler = OpenAICompletionsHandler.__new__(OpenAICompletionsHandler)
        self._handler.is_fc_model = True

    def load(self, category: str) -> None:
        """Read a category once, before any fork."""
        if category in self._categories:
            return
        entries = self._runner.load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
        # Paired by their order, as the package does.
        gold = [] if "relevance" in category else self._runner.load_ground_truth_entry(category)
        ids = [entry["id"] for entry in entries]
        answers = [answer["ground_truth"] for answer in gold]
        self._categories[category] = _Category(
            dict(zip(ids, entries, strict=True)), dict(zip(ids, answers, strict=bool(gold)))
        )
        gc.freeze()

    def graded(self, row: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request; what the package raises on a result is told."""
        try:
            found = self._found(row["category"], row["id"], row["result"])
        except BaseException as error:  # SystemExit included: the model's text is evaluated
            return {"grade": row["grade"], "value": "", "error": f"{type(error).__name__}: {error}"[:400]}
        finally:
            for name in self._instances.keys() - self._own:
                del self._instances[name]
        fault = found.get("error_type") or (
            found["error"]["error_type"] if isinstance(found.get("error"), dict) else ""
        )
        return {"grade": row["grade"], "value": "" if found["valid"] else fault or "wrong", "error": ""}

    def _found(self, category: str, identity: str, result: Any) -> Any:
        # A copy, since the package takes the functions out of an entry that it has graded.
        entry, gold = dict(self._categories[category].entries[identity]), self._categories[category].gold.get(identity)
        common = (self._handler, identity, result)
        if "relevance" in category:
            return self._runner._evaluate_single_relevance_entry(*common, entry, _NAME, category)
        if category.startswith("multi_turn"):
            return self._runner._evaluate_single_multi_turn_entry(*common, gold, entry, _NAME, category)
        if _evaluates(category):
            return self._runner._evaluate_single_agentic_entry(*common, gold, entry, _NAME, category)
        language = "JAVASCRIPT" if "javascript" in category else "JAVA" if "java" in category else "PYTHON"
        return self._runner._evaluate_single_ast_entry(
            *common, gold, entry, _NAME, category,
            self._runner.Language[language], self._runner.ReturnFormat[language],
        )  # fmt: skip


if __name__ == "__main__":
    main()
