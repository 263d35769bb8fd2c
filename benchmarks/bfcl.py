"""BFCL: our plays and grades against bfcl-eval's own command line, on the same published answers. Part of `eval.py`."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from spade_evals.suites.bfcl.calls import gold_messages, step_of
from spade_evals.suites.bfcl.categories import MULTI_TURN, SINGLE_TURN
from spade_evals.suites.bfcl.environment import bfcl_python
from spade_evals.suites.bfcl.suite import BfclSuite
from spade_evals.types import Sample, SampleOutcome, Task

__all__ = ["bfcl_rates"]

_MODEL = "openbmb/MiniCPM-SALA-FC"
"""Of the package's own table: its handler is that for chat completions with native calls."""

_CATEGORY = "multi_turn_base"
_THREADS = 8

_OFFICIAL_CHECK = """
import json, sys, time
from pathlib import Path
from bfcl_eval.eval_checker import eval_runner
results, root, count = json.load(open(sys.argv[1])), Path(sys.argv[2]), 0
handler = eval_runner.get_handler(sys.argv[3])
seconds = 0.0
for category, found in results.items():
    prompt = eval_runner.load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
    gold = eval_runner.load_ground_truth_entry(category)
    rows = [{"id": one["id"], "result": found[one["id"]]} for one in prompt]
    started = time.perf_counter()
    accuracy, total = eval_runner.multi_turn_runner(
        handler, rows, prompt, gold, sys.argv[3].replace("/", "_"), category, root / "score"
    )
    seconds += time.perf_counter() - started
    assert accuracy == 1.0
    count += total
print(json.dumps(count / seconds), file=sys.stderr)
"""


def bfcl_rates(*, quick: bool) -> dict[str, float]:
    """Figures by name; none where the package has no environment, which is said."""
    python = bfcl_python()
    if python is None:
        print("bfcl-eval has no environment here, and its figures are left out: spade-eval setup bfcl_v4")
        return {}
    return asyncio.run(_grading(python)) | _replay(python, limit=20 if quick else None)


async def _grading(python: Path) -> dict[str, float]:
    suite = BfclSuite(part=",".join((*SINGLE_TURN, *MULTI_TURN)))
    tasks = suite.load(list(suite.columns)).tasks
    single = [(task, _single(task)) for task in tasks if task.column in SINGLE_TURN]
    turns = [(task, _turns(task)) for task in tasks if task.column in MULTI_TURN]
    try:
        rates = {
            "bfcl single-turn graded": await _rate(suite, single),
            "bfcl multi-turn graded": await _rate(suite, [(task, json.dumps(found)) for task, found in turns]),
        }
    finally:
        await suite.aclose()
    rates["bfcl multi-turn graded officially"] = _official_rate(python, turns)
    rates["ratio multi-turn grading"] = rates["bfcl multi-turn graded"] / rates["bfcl multi-turn graded officially"]
    return rates


async def _rate(suite: BfclSuite, pairs: list[tuple[Task, str]]) -> float:
    """Samples a second; start-up, the reading of each category included, comes before."""
    samples = [
        (task, Sample(id=task.id, epoch=0, attempt=0, column=task.column, outcome=SampleOutcome.SCORED, response=said))
        for task, said in pairs
    ]
    first = {task.column: (task, sample) for task, sample in samples}
    await asyncio.gather(*(suite.grade(*one) for one in first.values()))
    started = time.perf_counter()
    await asyncio.gather(*(suite.grade(*one) for one in samples))
    return len(samples) / (time.perf_counter() - started)


def _single(task: Task) -> str:
    """A response that is decoded and checked to the end of one call."""
    if not task.tools or "irrelevance" in task.column:
        return "No function fits."
    gold = task.data["gold"] or [{task.tools[0].name: {}}]
    calls = [
        {"name": name.replace(".", "_"), "arguments": {key: one[0] for key, one in arguments.items() if one}}
        for call in gold
        for name, arguments in call.items()
    ]
    return json.dumps({"text": "", "calls": calls})


def _turns(task: Task) -> list[list[object]]:
    turns: list[list[object]] = [[]]
    for message in gold_messages(task.data["gold"], (*task.tools, *task.data["later"])):
        turns[-1].append(step_of("", message.calls))
        if not message.calls:
            turns.append([])
    return turns[:-1]


def _official_rate(python: Path, turns: list[tuple[Task, list[list[object]]]]) -> float:
    results: dict[str, dict[str, object]] = {}
    for task, found in turns:
        results.setdefault(task.column, {})[task.id] = found
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "results.json").write_text(json.dumps(results))
        arguments = [str(python), "-c", _OFFICIAL_CHECK, f"{name}/results.json", name, _MODEL]
        run = subprocess.run(arguments, capture_output=True, text=True, check=True, env=_settings(name))
    return float(json.loads(run.stderr.splitlines()[-1]))


def _replay(python: Path, *, limit: int | None) -> dict[str, float]:
    """Seconds from nothing to scores: ours without a server, ours and the official one with the same server."""
    with tempfile.TemporaryDirectory() as name, _server(python) as url:
        root = Path(name)
        ours = _ours("scripted:gold", root / "log", limit)
        served = _ours(f"{url}#replay", root / "served", limit)
        official = min(_official(python, url, root / f"official-{count}", count, limit) for count in (1, _THREADS))
    return {
        "seconds of our replay": ours.wall,
        "seconds of our replay from the server": served.wall,
        "seconds of the official replay": official.wall,
        "seconds of CPU ours": ours.cpu,
        "seconds of CPU ours from the server": served.cpu,
        "seconds of CPU official": official.cpu,
        "ratio of seconds": ours.wall / official.wall,
        "ratio of seconds from the server": served.wall / official.wall,
    }


class _Took(NamedTuple):
    """Seconds; CPU tells more where others use the machine."""

    wall: float
    cpu: float


@contextmanager
def _taking() -> Iterator[list[_Took]]:
    """What the commands of the block took, once it has ended."""

    def now() -> _Took:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return _Took(time.perf_counter(), used.ru_utime + used.ru_stime)

    began, took = now(), list[_Took]()
    yield took
    ended = now()
    took.append(_Took(ended.wall - began.wall, ended.cpu - began.cpu))


@contextmanager
def _server(python: Path) -> Iterator[str]:
    data = next(python.parent.parent.glob("lib/python*/site-packages/bfcl_eval/data"))
    script = Path(__file__).with_name("bfcl_replay.py")
    with subprocess.Popen([sys.executable, script, data, _CATEGORY], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        finally:
            server.kill()


def _ours(model: str, log: Path, limit: int | None) -> _Took:
    command = [str(Path(sys.executable).with_name("spade-eval")), "run", "--model", model]
    command += [
        "--suite",
        f"bfcl_v4:{_CATEGORY}",
        "--out",
        str(log),
        "--json",
        *(["--limit", str(limit)] if limit else []),
    ]
    with _taking() as took:
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    (found,) = json.loads(run.stdout)
    assert found["summary"]["overall"] == 1.0, found["summary"]
    return took[0]


def _official(python: Path, url: str, root: Path, threads: int, limit: int | None) -> _Took:
    """`bfcl generate` and `bfcl evaluate`, as a user runs them."""
    root.mkdir()
    settings = _settings(str(root)) | {"OPENAI_BASE_URL": url}
    which = ["--test-category", _CATEGORY]
    if limit:
        ids = [f"{_CATEGORY}_{number}" for number in range(limit)]
        (root / "test_case_ids_to_generate.json").write_text(json.dumps({_CATEGORY: ids}))
        which = ["--run-ids"]
    bfcl = [str(python), "-m", "bfcl_eval"]
    generate = [*bfcl, "generate", "--model", _MODEL, *which, "--num-threads", str(threads)]
    evaluate = [*bfcl, "evaluate", "--model", _MODEL, "--test-category", _CATEGORY, "--partial-eval"]
    with _taking() as took:
        for command in (generate, evaluate):
            subprocess.run(command, capture_output=True, check=True, env=settings)
    score = next((root / "score").rglob(f"BFCL_v4_{_CATEGORY}_score.json"))
    assert json.loads(score.read_text().splitlines()[0])["accuracy"] == 1.0
    return took[0]


def _settings(root: str) -> dict[str, str]:
    return {**os.environ, "BFCL_PROJECT_ROOT": root, "OPENAI_API_KEY": "none", "HOME": root}
