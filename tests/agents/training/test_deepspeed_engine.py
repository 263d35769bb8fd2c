"""DeepSpeed is held to the torch engine: same batch, same loss and weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from spade_agents.errors import CheckpointError, UsageError
from spade_agents.training.config import (
    DeepSpeedEngineConfig,
    ImportanceExcess,
    ImportanceLevel,
    LoraConfig,
    Packing,
    Precision,
)
from spade_agents.training.deepspeed_engine import DeepSpeedEngine
from spade_agents.training.zero3 import split
from tests.agents.training.conformance import CONFIG, REPLAY, check_conformance, reference_run
from tests.agents.training.toy import toy_llama, toy_samples


def config(stage: int = 2, **changes) -> DeepSpeedEngineConfig:
    shared = DeepSpeedEngineConfig(optimizer=CONFIG.optimizer, loss=CONFIG.loss, token_budget=CONFIG.token_budget)
    zero = {"stage3_param_persistence_threshold": 0} if stage == 3 else {}
    return replace(shared, zero_stage=stage, zero=zero, **changes)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_one_process_gives_the_loss_gradient_norm_and_weights_of_the_torch_engine(stage: int):
    check_conformance(DeepSpeedEngine(toy_llama(), config(stage)), reference_run())


@pytest.mark.parametrize("stage", [2, 3])
def test_updates_in_another_thread_are_the_same_updates(stage: int):
    """That is how they are done where the next rollout is sampled meanwhile."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(check_conformance, DeepSpeedEngine(toy_llama(), config(stage)), reference_run()).result()


def test_several_steps_an_update_and_the_penalty_agree_too():
    changes = {"updates_per_rollout": 2, "epochs": 2, "loss": replace(CONFIG.loss, kl_coefficient=0.05)}
    check_conformance(DeepSpeedEngine(toy_llama(), config(2, **changes)), reference_run(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"packing": Packing.PADDED},
        {"gradient_checkpointing": True},
        {"lora": LoraConfig(rank=4), "loss": replace(CONFIG.loss, kl_coefficient=0.05)},
        {
            "loss": replace(
                CONFIG.loss, importance_level=ImportanceLevel.SEQUENCE, importance_excess=ImportanceExcess.MASK
            )
        },
    ],
    ids=["padded", "checkpointed", "lora", "masked sequences"],
)
def test_packing_checkpointing_adapters_and_importance_weights_agree_too(changes):
    check_conformance(DeepSpeedEngine(toy_llama(), config(2, **changes)), reference_run(**changes))


def test_weights_without_fp32_masters_are_refused():
    with pytest.raises(ValueError, match="keeps fp32 masters"):
        config(2, precision=Precision.BF16_WEIGHTS)


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_a_loaded_engine_goes_on_to_the_bit(tmp_path: Path, stage: int):
    settings = config(stage, loss=replace(CONFIG.loss, kl_coefficient=0.005))
    engine, samples = DeepSpeedEngine(toy_llama(), settings), toy_samples(6)
    engine.update(samples)
    engine.save(tmp_path)
    resumed = DeepSpeedEngine(toy_llama(seed=5), settings)
    resumed.load(tmp_path)
    assert resumed.step == 1
    first, second = engine.update(samples), resumed.update(samples)
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in engine.state_dict().items())


@pytest.mark.parametrize("stage", [2, 3])
def test_scoring_exporting_and_bf16_work_as_in_the_torch_engine(tmp_path: Path, stage: int):
    engine, samples = DeepSpeedEngine(toy_llama(), config(stage, precision=Precision.BF16)), toy_samples(6)
    engine.update(samples, replay=REPLAY)
    assert [len(row) for row in engine.logprobs(samples)] == [len(sample.token_ids) for sample in samples]
    engine.export(tmp_path)
    exported = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert exported.keys() == engine.state_dict().keys()
    assert all(torch.equal(value, exported[name]) for name, value in engine.state_dict().items())


def test_an_update_without_any_gradient_moves_no_weight():
    engine = DeepSpeedEngine(toy_llama(), config())
    before = engine.state_dict()
    metrics = engine.update([replace(sample, advantage=0.0) for sample in toy_samples(3)])
    assert (metrics.optimizer_steps, engine.step) == (0, 1)
    assert all(torch.equal(value, before[name]) for name, value in engine.state_dict().items())


def test_checkpoints_that_do_not_fit_say_why(tmp_path: Path):
    engine = DeepSpeedEngine(toy_llama(), config(2))
    with pytest.raises(CheckpointError, match=r"no engine\.json"):
        engine.load(tmp_path)
    engine.save(tmp_path)
    with pytest.raises(CheckpointError, match="found zero_stage = 2, wanted 1"):
        DeepSpeedEngine(toy_llama(), config(1)).load(tmp_path)
    (tmp_path / "engine.json").write_text("{")
    with pytest.raises(CheckpointError, match="corrupt"):
        engine.load(tmp_path)


def test_rank_0_leads_and_follows_nobody():
    with pytest.raises(UsageError, match="rank 0 leads"):
        DeepSpeedEngine(toy_llama(), config()).follow()


def test_a_single_process_leaves_no_launcher_variables_behind():
    DeepSpeedEngine(toy_llama(), config())
    assert not {"RANK", "WORLD_SIZE", "MASTER_PORT"} & os.environ.keys()


@pytest.mark.parametrize(("stage", "offload"), [(2, "optimizer"), (3, "optimizer"), (3, "all")])
def test_what_is_offloaded_changes_no_result(stage: int, offload: str):
    check_conformance(DeepSpeedEngine(toy_llama(), config(stage, offload=offload)), reference_run())


def test_a_split_model_is_read_and_trained_from_a_folder_with_its_reference(tmp_path: Path):
    toy_llama().save_pretrained(tmp_path)
    changes = {"loss": replace(CONFIG.loss, kl_coefficient=0.05)}
    engine = DeepSpeedEngine.open(config(3, **changes), tmp_path)
    assert split(engine._model)
    assert split(engine._reference)
    check_conformance(engine, reference_run(**changes))


@pytest.mark.parametrize("stage", [2, 3])
def test_adapters_are_trained_and_merged_at_every_stage(stage: int):
    changes = {"lora": LoraConfig(rank=2), "loss": replace(CONFIG.loss, kl_coefficient=0.05)}
    check_conformance(DeepSpeedEngine(toy_llama(), config(stage, **changes)), reference_run(**changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"zero_stage": 2, "offload": "all"}, "wanted 3 or above"),
        ({"zero_stage": 0, "offload": "optimizer"}, "wanted 1 or above"),
        ({"zero": {"stage": 1}}, "set zero_stage and offload instead"),
    ],
)
def test_settings_of_deepspeed_that_contradict_each_other_are_refused(changes, told):
    with pytest.raises(ValueError, match=told):
        DeepSpeedEngineConfig(**changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "kind"), [(0, "plain"), (1, "plain"), (2, "plain"), (3, "plain"), (2, "steps"), (3, "steps"), (3, "lora")]
)
def test_two_processes_end_at_the_weights_of_one_whoever_gets_which_micro_batches(
    tmp_path: Path, stage: int, kind: str
):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "tests.agents.training.conformance", str(stage), kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["ranks"], report["resumed"]) == (2, True)
    if kind != "steps":
        assert report["pieces"] == [[3, 3], [1, 6], [6, 0]]  # the second update also has a piece of replay
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "model").state_dict()
    assert exported.keys() == toy_llama().state_dict().keys()
