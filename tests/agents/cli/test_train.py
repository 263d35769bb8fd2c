"""`spade train`: settings, bad input, and that nothing is half-written."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from spade_agents.cli import main
from spade_agents.selfplay.checkpoint import Checkpoint, save_checkpoint
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import LoopState


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `spade train`."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text("[run]\nname = 'mine'\nrollouts = 3\n")
    return path


def with_checkpoint(path: Path) -> Path:
    """A run directory with one finished checkpoint, and the path of its state."""
    directory = RunDirectory.create(path, RunSettings(), sandbox_level="D")

    def write(draft: Checkpoint) -> None:
        draft.state.write_bytes(LoopState().to_json())
        draft.memory.write_text("")

    return save_checkpoint(directory.checkpoints, 0, write).state


def test_the_resolved_settings_are_shown_as_toml(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path):
    code, out, _ = run(capsys, str(config), "run.seed=7", "--show-settings", "--out", str(tmp_path / "r"))
    settings = tomllib.loads(out)
    assert code == 0
    assert settings["run"] == settings["run"] | {"name": "mine", "rollouts": 3, "seed": 7}
    assert not (tmp_path / "r").exists()


def test_a_dry_run_tells_on_one_screen_what_a_run_needs_and_that_it_could_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path
):
    code, out, _ = run(capsys, str(config), "--dry-run", "--out", str(tmp_path / "r"))
    lines = out.splitlines()
    assert (code, lines[-1]) == (0, "fit to start")
    assert len(lines) <= 24
    wanted = ("model", "rollouts", "episodes", "tokens", "trainer", "memory", "disk", "sampler", "corpus", "sandbox")
    assert [line.split()[0] for line in lines if line.split()[0] in wanted] == list(wanted)
    assert not (tmp_path / "r").exists()


def test_a_dry_run_as_json_is_read_by_a_program(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path):
    code, out, _ = run(capsys, str(config), "--dry-run", "--json", "--out", str(tmp_path / "r"))
    told = json.loads(out)
    assert (code, told["fit"], told["faults"]) == (0, True, [])
    assert told["settings"]["run"]["name"] == "mine"
    assert told["needs"]["parameters"] > 2_000_000


def test_a_dry_run_says_all_that_would_fail(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path):
    changes = (f"designer.corpus={tmp_path / 'no.jsonl'}", f"model.start={tmp_path / 'no'}")
    code, out, err = run(capsys, str(config), *changes, "--dry-run", "--out", str(tmp_path))
    assert (code, err) == (2, "")
    assert "not fit to start, for 3 reasons:" in out
    assert [line[:2] for line in out.splitlines()[-3:]] == ["- "] * 3
    assert all(told in out for told in ("exists already", "no.jsonl does not exist", "there is no model"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_dry_run_of_the_largest_recipe_explains_its_needs_and_its_refusals_on_one_screen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    code, out, _ = run(capsys, "games_30b", "--dry-run", "--out", str(tmp_path / "r"))
    assert code == 2
    assert len(out.splitlines()) <= 24
    assert "30.5 billion parameters" in out
    assert "192,000 (153,600 unhinted, 38,400 hinted)" in out
    assert "hf download Qwen/Qwen3-30B-A3B-Instruct-2507" in out
    assert "runtime.ranks is 16, and this is one of 1" in out
    assert "training.engine.device is 'cuda': found 0" in out


def test_a_dry_run_on_ray_tells_what_the_cluster_must_have_and_what_it_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    on_ray = ("runtime.type=ray", "runtime.address=local", "runtime.engines=8")
    code, out, _ = run(capsys, "games_30b", *on_ray, "--dry-run", "--out", str(tmp_path / "r"))
    assert code == 2
    assert len(out.splitlines()) <= 24
    assert "16 training ranks x 1 CPU and 1 GPU; 8 samplers x 1 CPU and 1 GPU; 2 environment workers x 1 CPU" in out
    assert "in all 26 CPU and 24 GPU" in out
    assert "cluster at local: 1 machine with" in out
    assert "- runtime asks for 26 CPU and 24 GPU" in out
    assert "this is one of 1" not in out


def test_a_dry_run_warns_of_a_weak_sandbox(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path):
    weak = ("sandbox.layers=[]", "sandbox.allow_degraded=true", "--out", str(tmp_path / "r"))
    code, out, _ = run(capsys, str(config), *weak, "--dry-run")
    assert code == 0
    assert "The sandbox is at level D" in out
    code, out, _ = run(capsys, str(config), weak[0], *weak[2:], "--dry-run")
    assert code == 2
    assert "nothing is trained below level B" in out


def test_an_unknown_key_is_an_error_that_suggests_the_known_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path
):
    code, _, err = run(capsys, str(config), "run.rolouts=5", "--out", str(tmp_path / "r"))
    assert code == 2
    assert "run.rolouts" in err
    assert "did you mean 'run.rollouts'?" in err
    assert not (tmp_path / "r").exists()


def test_an_unfit_value_is_an_error_that_names_its_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path
):
    code, _, err = run(capsys, str(config), "run.rollouts=0", "--out", str(tmp_path / "r"))
    assert code == 2
    assert "run.rollouts" in err
    assert "Traceback" not in err


def test_a_configuration_that_is_not_there_is_an_error_that_names_the_shipped_ones(
    capsys: pytest.CaptureFixture[str],
):
    code, _, err = run(capsys, "nowhere.toml")
    assert code == 2
    assert "no configuration nowhere.toml" in err


def test_without_a_configuration_the_two_uses_are_told(capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys)
    assert code == 2
    assert "--resume RUN" in err


def test_a_missing_corpus_stops_the_run_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path
):
    missing, model = tmp_path / "missing.jsonl", tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    changes = (f"designer.corpus={missing}", f"model.start={model}")
    code, _, err = run(capsys, str(config), *changes, "--out", str(tmp_path / "r"))
    assert code == 2
    assert "missing.jsonl" in err
    assert not (tmp_path / "r").exists()


def test_a_run_directory_that_exists_is_left_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine.txt").write_text("x")
    code, _, err = run(capsys, str(config), "--out", str(tmp_path / "r"))
    assert code == 2
    assert "exists" in err
    assert "--resume" in err
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["mine.txt"]


def test_a_corrupt_checkpoint_is_told_by_the_file_that_changed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    state = with_checkpoint(tmp_path / "r")
    state.write_bytes(state.read_bytes() + b" ")
    code, _, err = run(capsys, "--resume", str(tmp_path / "r"))
    assert code == 2
    assert "corrupt" in err
    assert "state.json" in err
    assert "Traceback" not in err


def test_a_run_without_a_finished_checkpoint_cannot_be_resumed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    RunDirectory.create(tmp_path / "r", RunSettings(), sandbox_level="D")
    code, _, err = run(capsys, "--resume", str(tmp_path / "r"))
    assert code == 2
    assert "no finished checkpoint" in err


def test_a_folder_that_is_no_run_cannot_be_resumed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, err = run(capsys, "--resume", str(tmp_path))
    assert code == 2
    assert "no run directory" in err


def test_a_resumed_run_takes_no_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path):
    code, _, err = run(capsys, str(config), "--resume", str(tmp_path))
    assert code == 2
    assert "own settings" in err
