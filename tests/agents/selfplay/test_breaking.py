"""What a kill, a full disk, a curious hand or a second process does to a run: an error that says so, or nothing."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spade_agents.designer.memory import Memory
from spade_agents.errors import CheckpointError, ConfigurationError, UsageError
from spade_agents.selfplay.checkpoint import newest_stable, prune
from spade_agents.selfplay.preflight import same_settings
from spade_agents.selfplay.run_directory import RunDirectory
from tests.agents.selfplay.scripted import run, settings
from tests.agents.selfplay.test_resume import FAST, records

SHORT = (*FAST, "run.rollouts=2", "run.keep_checkpoints=9")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A short scripted run to its end, every checkpoint kept."""
    path = tmp_path_factory.mktemp("breaking") / "run"
    asyncio.run(run(path, settings(*SHORT)))
    return path


@pytest.fixture
def path(finished, tmp_path) -> Path:
    """A copy of it, back at its second checkpoint."""
    shutil.copytree(finished, tmp_path / "run")
    for name in ("step-2", "step-3"):
        shutil.rmtree(tmp_path / "run" / "checkpoints" / name)
    return tmp_path / "run"


async def resumed(path: Path):
    return await run(path, settings(*SHORT))


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def only_environment(path: Path) -> Path:
    return next(folder for folder in (path / "environments").iterdir() if folder.is_dir())


def cut_metrics(path):
    file = path / "metrics.jsonl"
    file.write_bytes(file.read_bytes()[:40])


def drop_environment(path):
    shutil.rmtree(only_environment(path))


def spoil_outcomes(path):
    (only_environment(path) / "outcomes.jsonl").write_text('{"rollout": "x"}\n')


def change_source(path):
    file = only_environment(path) / "environment.py"
    file.write_text(file.read_text() + "\n")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (cut_metrics, r"metrics\.jsonl holds 0 whole rows and wanted 1, .* the file was cut"),
        (drop_environment, "cannot be read"),
        (spoil_outcomes, "the outcomes of"),
        (change_source, "cannot be read"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_records_that_lack_what_the_checkpoint_counts_are_named_and_nothing_is_thrown_away(path, damage, told):
    damage(path)
    before = contents(path)
    with pytest.raises(UsageError, match=told):
        await resumed(path)
    after = contents(path)
    assert {name for name in before if not name.startswith(("metrics", "trajectories"))} <= set(after)


async def test_a_line_of_metrics_cut_after_the_checkpoint_is_played_again(finished, path):
    file = path / "metrics.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    await resumed(path)
    assert records(path) == records(finished)


async def test_a_checkpoint_that_bears_another_ones_name_is_refused(path):
    (path / "checkpoints" / "step-1").rename(path / "checkpoints" / "step-5")
    with pytest.raises(CheckpointError, match=r"step-5 holds the state after 1 rollouts: it was renamed"):
        await resumed(path)


async def test_files_swapped_between_checkpoints_are_seen(path):
    first, second = (path / "checkpoints" / name for name in ("step-0", "step-1"))
    kept = (second / "state.json").read_bytes()
    shutil.copy(first / "state.json", second / "state.json")
    with pytest.raises(CheckpointError, match=r"step-1 is corrupt: state\.json is not what was written"):
        await resumed(path)
    (second / "state.json").write_bytes(kept)
    with (second / "memory.json").open("a") as file:
        file.write(" ")
    with pytest.raises(CheckpointError, match=r"step-1 is corrupt: memory\.json is not what was written"):
        await resumed(path)


async def test_a_memory_that_lost_a_record_since_the_checkpoint_is_seen(finished, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    memory = Memory.open(RunDirectory(path).memory)
    memory.store.truncate(len(memory.store) - 1)
    memory.close()
    with pytest.raises(CheckpointError, match=r"memory\.sqlite holds \d+ records, and not the \d+ that the checkpoint"):
        await resumed(path)


@pytest.mark.parametrize("marker", ["", "[]", "{}", '{"sha256": []}', '{"sha256": {"state.json": 5}}', "\ud800"])
async def test_a_marker_that_holds_no_digests_is_a_corrupt_checkpoint(path, marker):
    (path / "checkpoints" / "step-1" / "STABLE").write_bytes(marker.encode(errors="surrogatepass"))
    with pytest.raises(CheckpointError, match="its STABLE marker cannot be read"):
        await resumed(path)


async def test_a_marker_that_names_nothing_does_not_hide_that_the_state_is_gone(path):
    (path / "checkpoints" / "step-1" / "STABLE").write_text('{"sha256": {}}')
    (path / "checkpoints" / "step-1" / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"step-1 is corrupt: state\.json cannot be read"):
        await resumed(path)


async def test_what_a_person_keeps_in_the_run_is_left_alone(finished, path):
    mine = [
        path / "trajectories" / "notes.txt",
        path / "checkpoints" / "step-0-backup" / "state.json",
        path / "checkpoints" / "notes.txt",
        path / "checkpoints" / "step-²" / "STABLE",
        path / "environments" / "mine" / "environment.py",
    ]
    for file in mine:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    (path / ".manifest.json.77.draft").write_text("left by a kill")
    await resumed(path)
    prune(path / "checkpoints", keep=1)
    assert all(file.read_text() == "mine" for file in mine)
    assert not (path / ".manifest.json.77.draft").exists()
    assert newest_stable(path / "checkpoints").path.name == "step-3"


def test_two_processes_do_not_work_on_one_run(path):
    one, other = RunDirectory(path), RunDirectory(path)
    told = rf"process {os.getpid()} on .* is at work on the run"
    with one.locked(), pytest.raises(UsageError, match=told), other.locked():
        pass
    with other.locked():
        pass


def test_a_run_goes_on_only_under_the_settings_that_decide_its_batches(path):
    saved = newest_stable(path / "checkpoints")
    same_settings(saved, settings(*SHORT))
    same_settings(saved, settings(*SHORT, "run.rollouts=9", "run.keep_checkpoints=1", "sandbox.allow_degraded=true"))
    with pytest.raises(ConfigurationError, match=r"step-1: run\.seed was 0 and is 1; selfplay\.plays was 2 and is 3\."):
        same_settings(saved, settings(*SHORT, "run.seed=1", "selfplay.plays=3"))
    with pytest.raises(ConfigurationError, match=r"reward\.type was 'blend' and is 'regret_only'"):
        same_settings(saved, settings(*SHORT, "reward.type=regret_only"))


async def test_a_run_with_fewer_rollouts_than_it_has_done_is_finished_and_not_stopped(path):
    _, state = await run(path, settings(*SHORT, "run.rollouts=1"))
    assert (state.rollout, state.finished) == (1, True)


def spawned(path: Path, **options) -> subprocess.Popen[str]:
    """A scripted run in a process and session of its own."""
    rooms = (".", "tools", "evals", "environments")
    paths = os.pathsep.join(str(Path.cwd() / room) for room in rooms)
    command = [sys.executable, "-m", "tests.agents.selfplay.scripted", str(path), *SHORT]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True, text=True, stdout=pipe,
        stderr=pipe, **options,
    )  # fmt: skip


def is_left(session: int) -> bool:
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_second_ctrl_c_ends_a_run_at_once_and_it_goes_on_from_its_checkpoint(finished, tmp_path):
    process = spawned(tmp_path / "run")
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGINT)
    while not process.stdout.readline().startswith("Stopping after this rollout"):
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGINT), errors
    assert not is_left(process.pid)
    await resumed(tmp_path / "run")
    assert records(tmp_path / "run") == records(finished)


@pytest.mark.parametrize("room", [3_000, 12_000, 24_000])
async def test_a_disk_that_fills_up_ends_the_run_and_it_goes_on_once_there_is_room(finished, tmp_path, room):
    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    process = spawned(tmp_path / "run", preexec_fn=little_room)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert re.search("File too large|memory.sqlite cannot be written", errors.splitlines()[-1])
    assert not is_left(process.pid)
    drafts = [file.name for file in tmp_path.rglob("*.draft") if file.is_file()]
    assert drafts == []
    if (tmp_path / "run" / "checkpoints" / "step-0").exists():
        await resumed(tmp_path / "run")
        assert records(tmp_path / "run") == records(finished)
    else:
        assert not (tmp_path / "run").exists() or list((tmp_path / "run" / "checkpoints").glob("step-*")) == []
