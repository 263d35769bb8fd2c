from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spade_agents
from spade_agents.errors import CheckpointError, ConfigurationError, InfrastructureError, UsageError
from spade_agents.policy import open_policy
from spade_agents.selfplay.preflight import check_out, prepare
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings
from spade_agents.telemetry import SilentReporter
from tests.agents.selfplay.test_loop import without_seconds
from tests.agents.tiny import llama, tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A random Llama with a byte-level tokenizer, as a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    llama(vocabulary=tokenizer().vocabulary_size, max_position_embeddings=4096).save_pretrained(folder)
    tokenizer().inner.save(str(folder / "tokenizer.json"))
    (folder / "spade.json").write_text(json.dumps({"template_family": "hermes", "style": "compact"}))
    return folder


def overrides(tiny, *more):
    return [
        f"model.start={tiny}",
        "run.rollouts=2",
        "designer.corpus=none",
        "designer.call.attempts=2",
        "designer.call.sampling.max_tokens=24",
        "selfplay.environments=2",
        "selfplay.plays=2",
        "selfplay.hint_plays=2",
        "selfplay.period=1",
        "selfplay.play.sampling.max_tokens=12",
        "training.engine.optimizer.learning_rate=0.01",
        "reward.rejected=-0.2",
        *more,
    ]


REPLAY = ("training.replay.type=supervised", "training.replay.source=tests.agents.selfplay.scripted:open_replay")


def test_the_loop_trains_a_real_model_and_leaves_one_that_plays(tmp_path, tiny):
    result = spade_agents.train(out=tmp_path / "run", overrides=overrides(tiny))
    assert result.finished
    rows = [row for row in result.rows if row["kind"] == "rollout"]
    assert [row["design"]["verdicts"] for row in rows] == [{"rejected": 4}] * 2
    assert [row["train"]["designer"] for row in result.rows] == [0, 4, 4]
    about = json.loads((tmp_path / "run" / "checkpoints" / "step-3" / "model" / "spade.json").read_text())
    assert (about["template_family"], about["style"], about["run"], about["step"]) == ("hermes", "compact", "run", 3)


async def test_a_finished_run_is_a_policy(tmp_path, tiny):
    import asyncio

    await asyncio.to_thread(spade_agents.train, out=tmp_path / "run", overrides=overrides(tiny, "run.rollouts=1"))
    async with open_policy(str(tmp_path / "run")) as policy:
        assert policy.info.has_tokens


def test_a_stopped_run_resumes_to_the_same_next_batch_and_loss(tmp_path, tiny):
    unbroken = spade_agents.train(out=tmp_path / "unbroken", overrides=overrides(tiny, "run.rollouts=3", *REPLAY))
    spade_agents.train(
        out=tmp_path / "run", overrides=overrides(tiny, "run.rollouts=3", "run.keep_checkpoints=9", *REPLAY)
    )
    for name in ("step-2", "step-3", "step-4"):
        shutil.rmtree(tmp_path / "run" / "checkpoints" / name)
    resumed = spade_agents.resume(tmp_path / "run")
    assert resumed.finished
    losses = [row["train"]["loss"] for row in unbroken.rows]
    assert len(set(losses)) == 4
    assert without_seconds(resumed.rows) == without_seconds(unbroken.rows)


def test_the_run_ends_when_the_policy_does_not_take_the_new_weights(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("spade_agents.policy.sampler.Sampler.load", lambda sampler, state: None)
    with pytest.raises(InfrastructureError, match=r"log-probabilities of the canary differ"):
        spade_agents.train(out=tmp_path / "run", overrides=overrides(tiny, *REPLAY))
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-0"]


@pytest.mark.parametrize(
    ("more", "error", "told"),
    [
        (["model.start=/nowhere"], UsageError, "no model"),
        (["designer.corpus=/nowhere.jsonl"], UsageError, "does not exist"),
        (["selfplay.pool.type=static", "selfplay.pool.source=/nowhere"], UsageError, "is no pool"),
        (["evaluation.evaluator=spade_evals.nothing:x"], ConfigurationError, "cannot be imported"),
        (["evaluation.evaluator=nothing"], ConfigurationError, "wanted package.module:name"),
        (["run.rolouts=3"], ConfigurationError, "did you mean"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_input_is_a_clear_error_and_nothing_is_written(tmp_path, tiny, more, error, told):
    with pytest.raises(error, match=told) as caught:
        spade_agents.train(out=tmp_path / "run", overrides=overrides(tiny, *more))
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def damaged(tiny, folder):
    """The tiny model with half of its weights."""
    shutil.copytree(tiny, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    return folder


def test_all_that_would_spoil_a_run_is_told_at_once_and_nothing_is_written(tmp_path, tiny):
    (tmp_path / "file").write_text("")
    model = damaged(tiny, tmp_path / "model")
    chosen = load_settings(RunSettings, None, overrides(tiny, f"model.start={model}", "designer.corpus=/nowhere.jsonl"))
    with pytest.raises(UsageError) as caught:
        prepare(chosen, tmp_path / "file" / "run")
    lines = str(caught.value).splitlines()
    assert [line[:2] for line in lines[1:]] == ["- "] * 3
    assert "file is no folder; give another --out" in lines[1]
    assert "it is damaged" in lines[2]
    assert "/nowhere.jsonl does not exist" in lines[3]
    assert {path.name for path in tmp_path.iterdir()} == {"file", "model"}


def test_a_frozen_designer_may_be_an_endpoint_or_a_script_and_must_else_be_a_whole_model(tiny, tmp_path):
    def prepared(target):
        chosen = overrides(tiny, "designer.policy.type=frozen", f"designer.policy.target={target}")
        return prepare(load_settings(RunSettings, None, chosen), tmp_path / "run")

    for target in ("https://host.example/v1#model", "scripted:silent"):
        assert prepared(target).start == tiny
    with pytest.raises(UsageError, match="there is no model 'nowhere'"):
        prepared("nowhere")


@pytest.mark.parametrize("length", [250, 300])
def test_a_name_that_is_too_long_for_the_disk_is_told_before_anything_is_opened(tmp_path, length):
    with pytest.raises(UsageError, match="File name too long; give another --out"):
        check_out(tmp_path / ("x" * length))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_opened(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="read-only"):
        check_out(tmp_path / "a" / "run")


@pytest.mark.parametrize(("layers", "level"), [("['landlock']", "C"), ("[]", "D")])
def test_nothing_is_trained_where_the_sandbox_is_weak_and_the_settings_do_not_allow_it(tmp_path, tiny, layers, level):
    weak = overrides(tiny, f"sandbox.layers={layers}")
    with pytest.raises(UsageError, match=rf"at level {level} here .* sandbox\.allow_degraded=true"):
        spade_agents.train(out=tmp_path / "run", overrides=weak)
    assert list(tmp_path.iterdir()) == []


class Told(SilentReporter):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def test_a_weak_sandbox_that_is_allowed_is_told_at_each_start_and_stands_in_the_manifest(tmp_path, tiny):
    allowed = ["run.rollouts=1", "sandbox.layers=['landlock']", "sandbox.allow_degraded=true"]
    first, again = Told(), Told()
    spade_agents.train(out=tmp_path / "run", overrides=overrides(tiny, *allowed), progress=first)
    spade_agents.resume(tmp_path / "run", progress=again)
    for said in (first.said[0], again.said[0]):
        assert said.startswith("The sandbox is at level C")
        assert any(line.startswith("  - make pipes, files in memory, executable memory") for line in said.splitlines())
        assert "make a socket" in said.splitlines()[-1]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    (resumed,) = manifest["resumed"]
    for facts in (manifest, resumed):
        assert facts["sandbox_level"] == "C"
        attempts = {attempt["name"]: attempt["held"] for attempt in facts["sandbox_attempts"]}
        assert len(attempts) >= 20
        assert not attempts["make a socket"]
        assert attempts["open a file of the host"]


def test_a_run_is_not_resumed_where_the_sandbox_is_weaker_than_its_settings_allow(tmp_path, tiny):
    spade_agents.train(out=tmp_path / "run", overrides=overrides(tiny, "run.rollouts=1"))
    config = tmp_path / "run" / "config.toml"
    config.write_text(re.sub(r"layers = \[[^]]*\]", "layers = []", config.read_text()))
    before = (tmp_path / "run" / "manifest.json").read_text()
    with pytest.raises(UsageError, match="at level D here"):
        spade_agents.resume(tmp_path / "run")
    assert (tmp_path / "run" / "manifest.json").read_text() == before


def test_an_existing_run_directory_is_refused_before_anything_is_opened(tmp_path, tiny):
    (tmp_path / "run").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        spade_agents.train(out=tmp_path / "run", overrides=overrides(tiny))


def test_resuming_what_is_no_run_or_has_a_corrupt_checkpoint_is_an_error(tmp_path, tiny):
    with pytest.raises(UsageError, match="no run directory"):
        spade_agents.resume(tmp_path)
    result = spade_agents.train(out=tmp_path / "run", overrides=overrides(tiny, "run.rollouts=1"))
    (result.path / "checkpoints" / "step-2" / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"step-2 is corrupt: state\.json"):
        spade_agents.resume(tmp_path / "run")


def test_a_users_own_mcp_server_is_trained_on(tmp_path, tiny):
    own = ("selfplay.pool.type=own", "selfplay.pool.source=tests.agents.selfplay.own_servers:environments")
    chosen = overrides(tiny, *own, "selfplay.plays=6", "run.rollouts=1")
    result = spade_agents.train(out=tmp_path / "run", overrides=chosen)
    (row,) = [row for row in result.rows if row["kind"] == "rollout"]
    assert row["play"]["plays"] == 6
    assert set(row["play"]["outcomes"]) <= {"scored", "agent_error"}
    assert row["train"]["agent"] == 6


@pytest.mark.parametrize("factory", ["twins", "nothing", "no_such_name"])
def test_own_environments_that_cannot_be_told_apart_or_found_are_refused(factory, tiny):
    own = ("selfplay.pool.type=own", f"selfplay.pool.source=tests.agents.selfplay.own_servers:{factory}")
    with pytest.raises(ConfigurationError, match=r"selfplay\.pool\.source"):
        prepare(load_settings(RunSettings, None, overrides(tiny, *own)))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "deepspeed"])
def test_a_run_from_python_prints_nothing_of_its_own_accord(tmp_path, tiny, engine):
    told = [*overrides(tiny, *REPLAY), f"training.engine.type={engine}"]
    program = f"import spade_agents; spade_agents.train(out={str(tmp_path / 'run')!r}, overrides={told!r})"
    rooms = os.pathsep.join(str(Path.cwd() / room) for room in (".", "tools", "evals", "environments"))
    environment = {name: value for name, value in os.environ.items() if name != "DS_ACCELERATOR"}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, "PYTHONPATH": rooms}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (done.stdout, [line for line in done.stderr.splitlines() if "accelerator" in line]) == ("", [])
