from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spade_agents.selfplay.run_directory import RunDirectory
from tests.agents.selfplay.scripted import run, settings
from tests.agents.selfplay.test_loop import without_seconds

FAST = ("selfplay.environments=2", "selfplay.plays=2", "selfplay.hint_plays=2", "run.rollouts=4")


def start(path: Path) -> subprocess.Popen[bytes]:
    """The scripted run in a process of its own, in a session that can be killed whole."""
    command = [sys.executable, "-m", "tests.agents.selfplay.scripted", str(path), *FAST]
    rooms = (".", "tools", "evals", "environments")
    paths = os.pathsep.join(str(Path.cwd() / room) for room in rooms)
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True)


def killed_when(path: Path, is_time) -> bool:
    """Kill a run with SIGKILL as soon as `is_time`; whether it was still going."""
    process = start(path)
    while process.poll() is None and not is_time():
        time.sleep(0.002)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return alive


def records(path: Path):
    directory = RunDirectory(path)
    plays = {number: list(directory.read_trajectories(number)) for number in range(4)}
    pool = {folder.name: (folder / "outcomes.jsonl").read_text() for folder in (path / "environments").glob("*/")}
    return without_seconds(directory.metrics.rows()), plays, pool


async def test_a_run_killed_right_after_a_row_of_metrics_goes_on_without_a_lost_or_doubled_rollout(tmp_path):
    await run(tmp_path / "unbroken", settings(*FAST))
    path = tmp_path / "run"
    assert killed_when(path, lambda: path.exists() and len(RunDirectory(path).metrics.rows()) == 2)
    _, state = await run(path, settings(*FAST))
    assert state.finished
    assert records(path) == records(tmp_path / "unbroken")
    assert [row["rollout"] for row in RunDirectory(path).metrics.rows()] == [0, 1, 2, 3, 4]


def after_writes(path: Path, count: int):
    """True once the run's folder was seen to change so many times: random moments that do not depend on speed."""
    seen, changes = snapshot(path), 0

    def is_time() -> bool:
        nonlocal seen, changes
        now = snapshot(path)
        changes += now != seen
        seen = now
        return changes >= count

    return is_time


def snapshot(path: Path) -> frozenset[tuple[str, int, int]]:
    found = set()
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                file = Path(folder) / name
                status = file.stat()
                found.add((str(file), status.st_size, status.st_mtime_ns))
    return frozenset(found)


@pytest.mark.slow
async def test_runs_killed_at_twenty_random_moments_end_as_the_unbroken_one(tmp_path):
    await run(tmp_path / "unbroken", settings(*FAST))
    rng, kills, finished = random.Random(0), 0, 0
    while kills < 20:
        path = tmp_path / f"run-{finished}"
        if not path.exists():
            assert killed_when(path, (path / "checkpoints" / "step-0" / "STABLE").exists)
        elif killed_when(path, after_writes(path, rng.randint(1, 25))):
            kills += 1
        else:
            assert records(path) == records(tmp_path / "unbroken")
            finished += 1
            assert finished < 20, "runs end before they can be killed: make them longer"
    _, state = await run(path, settings(*FAST))
    assert state.finished
    assert records(path) == records(tmp_path / "unbroken")
