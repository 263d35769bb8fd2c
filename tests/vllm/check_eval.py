"""`spade-eval run --backend vllm`: a checkpoint is scored over a real vLLM server, which ends with the command."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spade_agents.errors import CheckpointError
from spade_agents.policy import model_folder
from tests.agents.cli.test_serve import descendants
from tests.vllm.install import PYTHON

SPADE_EVAL = Path(sys.executable).with_name("spade-eval")
SUITE = ("--suite", "environments:catalogue", "--limit", "1", "--n", "1")
START_SECONDS = 900


def started(tmp_path, *arguments):
    """The command on MODEL of the environment where that is set (a checkpoint, say), else SmolLM2 as it was fetched."""
    model = os.environ.get("MODEL", "smollm2")
    try:
        model_folder(model)
    except CheckpointError as error:
        pytest.skip(str(error))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [str(SPADE_EVAL), "run", "--model", model, "--backend", "vllm", "--vllm-python", str(PYTHON), *SUITE]
    return subprocess.Popen(
        [*command, "--out", str(tmp_path / "log"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=os.environ | {"TMPDIR": str(scratch)},
    )  # fmt: skip


def folders_of_ours(tmp_path):
    """What is left of them; vLLM's own caches stay."""
    return [path.name for path in (tmp_path / "scratch").iterdir() if path.name.startswith("spade-")]


def test_a_checkpoint_is_scored_over_vllm_and_its_log_tells_the_version(tmp_path):
    run = started(tmp_path, "--max-tokens", "16")
    out, err = run.communicate(timeout=START_SECONDS)
    print(f"\n{out}")
    assert run.returncode == 0, err
    assert json.loads((tmp_path / "log" / "eval.json").read_text())["model"]["backend"].startswith("vllm 0.")
    assert folders_of_ours(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_the_server_ends_with_a_command_that_is_ended(tmp_path, number, code):
    run, until = started(tmp_path), time.monotonic() + START_SECONDS
    while not (tmp_path / "log" / "eval.json").exists():  # from when on the model is asked
        assert run.poll() is None and time.monotonic() < until, run.stderr.read()
        select.select([], [], [], 0.1)
    ends = [os.pidfd_open(child) for child in descendants(run.pid)]
    assert len(ends) >= 3, "a supervisor, a server and its engine"
    run.send_signal(number)
    assert run.wait(60) == code
    for end in ends:
        assert select.select([end], [], [], 60)[0], "a process of the server outlives the command"
        os.close(end)
    if number == signal.SIGTERM:
        assert folders_of_ours(tmp_path) == []
