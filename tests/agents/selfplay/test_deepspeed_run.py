from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spade_agents.selfplay import RunSettings
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.settings import load_settings

SMALL = [
    "run.rollouts=3",
    "run.seed=3",
    "evaluation.evaluator=none",
    "selfplay.environments=3",
    "selfplay.plays=4",
    "selfplay.hint_plays=4",
    "selfplay.period=2",
    "certificate.seeds=3",
    "training.replay.samples=4",
    "training.engine.precision=fp32",
]


def trained(out: Path, config: str, processes: int) -> list[dict]:
    """The rows of a small nano run in processes of their own."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    command = [sys.executable, *launcher, "-m", "tests.agents.selfplay.test_deepspeed_run", config, str(out)]
    rooms = os.pathsep.join(str(Path.cwd() / room) for room in (".", "tools", "evals", "environments"))
    environment = {**os.environ, "PYTHONPATH": rooms, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return RunDirectory(out).metrics.rows()


@pytest.mark.slow
def test_the_nano_loop_trains_both_roles_under_zero_2_on_one_process_and_on_two_as_plain_torch_does(tmp_path):
    torch_rows = trained(tmp_path / "torch", "configs/nano.toml", 1)
    for processes in (1, 2):
        rows = trained(tmp_path / f"deepspeed-{processes}", "configs/nano_deepspeed.toml", processes)
        assert [row["kind"] for row in rows] == ["rollout", "rollout", "rollout", "flush"]
        assert [row["train"]["designer"] > 0 for row in rows] == [False, False, True, True]
        assert rows[0]["train"]["agent"] == 12
        first, expected = rows[0]["train"], torch_rows[0]["train"]
        for name in ("loss", "policy_loss", "replay_loss", "grad_norm"):
            assert first[name] == pytest.approx(expected[name], abs=1e-4), name
        manifest = json.loads((tmp_path / f"deepspeed-{processes}" / "manifest.json").read_text())
        assert "deepspeed" in manifest["versions"]


def main(config: str, out: str) -> None:
    import spade_agents

    spade_agents.train(load_settings(RunSettings, config, SMALL), out=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
