from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import spade_agents
from spade_agents.selfplay.checkpoint import Checkpoint, newest_stable
from spade_agents.selfplay.run_directory import RunDirectory
from tests.agents.selfplay.scripted import run, settings
from tests.agents.selfplay.test_loop import without_seconds
from tests.agents.selfplay.test_run import REPLAY, overrides
from tests.agents.tiny import llama, tokenizer

FAST = ("selfplay.environments=2", "selfplay.plays=2", "selfplay.hint_plays=2", "run.rollouts=4")


def start(path: Path, *more: str) -> subprocess.Popen[bytes]:
    """The scripted run in a process of its own, in a session that can be killed whole."""
    command = [sys.executable, "-m", "tests.agents.selfplay.scripted", str(path), *FAST, *more]
    rooms = (".", "tools", "evals", "environments")
    paths = os.pathsep.join(str(Path.cwd() / room) for room in rooms)
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True)


def killed_when(path: Path, is_time, *more: str) -> bool:
    """Kill a run with SIGKILL as soon as `is_time`; whether it was still going."""
    process = start(path, *more)
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
@pytest.mark.parametrize("more", [(), ("selfplay.asynchronous=true",)], ids=["in turn", "asynchronous"])
async def test_runs_killed_at_twenty_random_moments_end_as_the_unbroken_one(tmp_path, more):
    chosen = settings(*FAST, *more)
    await run(tmp_path / "unbroken", chosen)
    rng, kills, finished = random.Random(0), 0, 0
    while kills < 20:
        path = tmp_path / f"run-{finished}"
        if not path.exists():
            assert killed_when(path, (path / "checkpoints" / "step-0" / "STABLE").exists, *more)
        elif killed_when(path, after_writes(path, rng.randint(1, 25)), *more):
            kills += 1
        else:
            assert records(path) == records(tmp_path / "unbroken")
            finished += 1
            assert finished < 20, "runs end before they can be killed: make them longer"
    _, state = await run(path, chosen)
    assert state.finished
    assert records(path) == records(tmp_path / "unbroken")


def everything(path: Path) -> dict[str, object]:
    """All that decides what a run does next, and all that it did: compared byte by byte."""
    directory = RunDirectory(path)
    saved = newest_stable(directory.checkpoints)
    files = {str(file.relative_to(saved.path)): file.read_bytes() for file in sorted(saved.path.rglob("*.*"))}
    weights = torch.load(saved.engine / "engine.pt", weights_only=True)
    flat = {name: value.numpy().tobytes() for name, value in weights["model"].items()}
    return {
        "records": records(path),
        "state": saved.state.read_bytes(),
        "model": files["model/model.safetensors"],
        "weights": flat,
        "moments": str(weights["optimizer"]),
    }


@pytest.mark.slow
def test_a_trained_run_killed_between_writes_of_its_checkpoints_goes_on_to_the_bit(tmp_path, tiny_model):
    """Twenty of the moments between two file operations of a checkpoint, drawn at random; then the run is resumed."""
    spade_agents.train(
        out=tmp_path / "start", overrides=overrides(tiny_model, "run.rollouts=4", "run.keep_checkpoints=9", *REPLAY)
    )
    back_to(tmp_path / "start", 1)

    def resumed(*places: tuple[Path, int | None]) -> list[str]:
        command = [sys.executable, "-m", "tests.agents.selfplay.killing"]
        command += [f"{path}@{'' if at is None else at}" for path, at in places]
        rooms = os.pathsep.join(str(Path.cwd() / room) for room in (".", "tools", "evals", "environments"))
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": rooms}, capture_output=True, text=True, timeout=800, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.split()

    def copied(name: str) -> Path:
        shutil.copytree(tmp_path / "start", tmp_path / name)
        return tmp_path / name

    unbroken = copied("unbroken")
    (operations,) = resumed((unbroken, None))
    moments = random.Random(0).sample(range(int(operations)), 20)
    runs = [copied(f"run-{number}") for number in range(20)]
    assert resumed(*zip(runs, moments, strict=True)) == ["killed"] * 20
    for run_path in runs:
        for marker in (run_path / "checkpoints").glob("*/STABLE"):
            Checkpoint(path=marker.parent).verify()
    assert "killed" not in resumed(*((run_path, None) for run_path in runs))
    wanted = everything(unbroken)
    assert all(everything(run_path) == wanted for run_path in runs)


def back_to(path: Path, number: int) -> None:
    """A run as it was when its checkpoint `number` was the newest one."""
    for saved in (path / "checkpoints").glob("step-*"):
        if int(saved.name.removeprefix("step-")) != number:
            shutil.rmtree(saved)


@pytest.fixture
def tiny_model(tmp_path) -> Path:
    """A random Llama with a byte-level tokenizer, as a Hugging Face folder."""
    folder = tmp_path / "model"
    llama(vocabulary=tokenizer().vocabulary_size, max_position_embeddings=4096).save_pretrained(folder)
    tokenizer().inner.save(str(folder / "tokenizer.json"))
    (folder / "spade.json").write_text(json.dumps({"template_family": "hermes", "style": "compact"}))
    return folder
