from __future__ import annotations

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
        time.sleep(0.005)
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


@pytest.mark.slow
async def test_a_run_killed_at_twenty_random_moments_ends_as_the_unbroken_one(tmp_path):
    await run(tmp_path / "unbroken", settings(*FAST))
    path, rng, kills = tmp_path / "run", random.Random(0), 0
    for _ in range(60):
        if not path.exists():
            killed_when(path, (path / "checkpoints" / "step-0" / "STABLE").exists)
            continue
        moment = time.monotonic() + rng.uniform(0.8, 3.0)
        kills += killed_when(path, lambda moment=moment: time.monotonic() > moment)
        if kills >= 20:
            break
    assert kills >= 5
    _, state = await run(path, settings(*FAST))
    assert state.finished
    assert records(path) == records(tmp_path / "unbroken")
