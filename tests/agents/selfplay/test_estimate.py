"""What a run needs, by hand-computed numbers and against what engines and checkpoints really hold."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from spade_agents.policy.shape import KNOWN_MODELS, ModelShape
from spade_agents.selfplay.estimate import count_work, disk_needs, smallest_ranks, trained_parameters, trainer_memory
from spade_agents.selfplay.readiness import Machine, machine_faults, needs_of
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings
from spade_agents.training.config import DeepSpeedEngineConfig, LoraConfig, LossConfig, Precision, TorchEngineConfig
from spade_agents.training.devices import Device
from tests.agents.training.toy import toy_llama, toy_samples

GIB = 1024**3
SHAPE = KNOWN_MODELS["Qwen3-4B-Instruct-2507"]


def load(*overrides: str) -> RunSettings:
    return load_settings(RunSettings, None, overrides)


# Parameter counts as the models' cards round them.
@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Qwen3-0.6B", 0.6),
        ("Qwen3-1.7B", 1.7),
        ("Qwen3-4B-Instruct-2507", 4.0),
        ("Qwen3-8B", 8.2),
        ("Qwen3-30B-A3B-Instruct-2507", 30.5),
    ],
)
def test_the_known_models_have_the_sizes_that_their_cards_give(name, billions):
    assert round(KNOWN_MODELS[name].parameters / 1e9, 1) == billions


def test_a_shape_read_from_a_configuration_counts_what_the_model_has():
    model = toy_llama()
    shape = ModelShape.from_config(model.config.to_dict())
    assert shape.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_episodes_and_tokens_of_a_run():
    # 10 rollouts, sets for 4: three regenerations of 3 slots, 2 attempts each.
    chosen = load(
        "run.rollouts=10", "selfplay.environments=3", "selfplay.plays=5", "selfplay.hint_plays=4", "selfplay.period=4",
        "selfplay.play.sampling.max_tokens=100", "designer.call.attempts=2", "designer.call.sampling.max_tokens=600",
        "designer.call.hint_tries=3", "designer.call.hint_sampling.max_tokens=50",
    )  # fmt: skip
    counts = count_work(chosen, context=1000)
    assert (counts.unhinted, counts.hinted, counts.episodes) == (150, 36, 186)
    assert (counts.slots, counts.attempts) == (9, 18)
    assert counts.play_tokens == 186 * 1000  # 25 turns of 100 tokens do not fit a context of 1,000
    assert counts.design_tokens == 18 * 600 + 9 * 3 * 50
    assert counts.rollout_tokens == 15 * 1000 + 6 * 600
    fixed = count_work(load("selfplay.pool.type=static", "run.rollouts=4"), context=1000)
    assert (fixed.slots, fixed.attempts, fixed.design_tokens) == (0, 0, 0)


def test_zero_stages_split_moments_then_gradients_then_weights():
    million, ranks = 1_000_000, 4
    held = {
        stage: trainer_memory(DeepSpeedEngineConfig(zero_stage=stage), SHAPE, million, ranks) for stage in (0, 1, 2, 3)
    }
    found = {stage: (m.weights, m.gradients, m.optimizer) for stage, m in held.items()}
    # Megabytes: fp32 weights 4, gradients 4, moments 8; from stage 1 on also a quarter of a second copy, 1.
    assert found == {
        0: (4 * million, 4 * million, 8 * million),
        1: (4 * million, 4 * million, 3 * million),
        2: (4 * million, 1 * million, 3 * million),
        3: (1 * million, 1 * million, 3 * million),
    }
    moved = trainer_memory(DeepSpeedEngineConfig(zero_stage=3, offload="all"), SHAPE, million, ranks)
    assert (moved.weights, moved.optimizer, moved.host) == (0, 0, 4 * million)


def test_a_reference_is_held_only_with_a_penalty_and_never_beside_adapters():
    penalty = LossConfig(kl_coefficient=0.005)
    assert trainer_memory(TorchEngineConfig(), SHAPE, 10, 1).reference == 0
    assert trainer_memory(TorchEngineConfig(loss=penalty), SHAPE, 10, 1).reference == 40
    assert trainer_memory(TorchEngineConfig(loss=penalty, lora=LoraConfig()), SHAPE, 10, 1).reference == 0


def test_the_trainer_holds_what_is_said_of_it():
    from spade_agents.training.torch_engine import TorchEngine

    model = toy_llama()
    shape, parameters = ModelShape.from_config(model.config.to_dict()), sum(p.numel() for p in model.parameters())
    for config in (TorchEngineConfig(), TorchEngineConfig(lora=LoraConfig(rank=4), precision=Precision.BF16)):
        engine = TorchEngine(toy_llama(), config)
        engine.update(toy_samples())
        held = trainer_memory(config, shape, parameters, 1)
        tensors = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in engine._model.parameters()}
        assert sum(tensors.values()) == held.weights
        trained = [p for p in engine._model.parameters() if p.requires_grad]
        assert sum(p.numel() for p in trained) == trained_parameters(config, shape, parameters)
        moments = [t for state in engine._optimizer.state.values() for t in state.values() if t.ndim]
        assert sum(t.nbytes for t in moments) == held.optimizer


def test_a_checkpoint_takes_the_disk_that_is_said_of_it(tmp_path: Path):
    from spade_agents.training.torch_engine import TorchEngine

    model = toy_llama(vocab_size=4000)
    shape, parameters = ModelShape.from_config(model.config.to_dict()), sum(p.numel() for p in model.parameters())
    chosen = load("run.keep_checkpoints=2", "training.engine.loss.kl_coefficient=0.005")
    engine = TorchEngine(model, chosen.training.engine)
    engine.update(toy_samples())
    engine.export(tmp_path / "model")
    engine.save(tmp_path / "engine")
    found = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    needs = disk_needs(chosen, shape, parameters, count_work(chosen, 100))
    assert needs.checkpoint == pytest.approx(found, rel=0.1)
    assert needs.checkpoints == 3 * needs.checkpoint


def test_the_fewest_processes_that_a_model_fits_on_are_found():
    engine = DeepSpeedEngineConfig(zero_stage=3, token_budget=1024)
    parameters = SHAPE.parameters
    fits = smallest_ranks(engine, SHAPE, parameters, 40 * GIB)
    assert fits is not None
    assert trainer_memory(engine, SHAPE, parameters, fits).total <= 40 * GIB
    assert trainer_memory(engine, SHAPE, parameters, fits // 2).total > 40 * GIB
    assert smallest_ranks(TorchEngineConfig(), SHAPE, parameters, 40 * GIB) is None


MACHINE = Machine(processes=1, devices=(), memory=64 * GIB, disk=1000 * GIB)


def told(settings: RunSettings, **changes) -> list[str]:
    return [str(fault) for fault in machine_faults(settings, replace(MACHINE, **changes))]


def test_a_run_that_fits_a_machine_has_no_faults():
    assert told(load()) == []


@pytest.mark.parametrize(
    ("overrides", "machine", "wanted"),
    [
        (("runtime.ranks=4", "training.engine.type=deepspeed"), {}, "runtime.ranks is 4, and this is one of 1"),
        ((), {"processes": 2}, "which has one process, and 2 are wanted"),
        (("training.engine.device=cuda",), {}, "found 0 of them here, wanted 1"),
        ((), {"disk": 1000}, "checkpoints of"),
        ((), {"memory": 1000}, "on the CPU the run holds"),
        (("sampler.type=vllm",), {}, "vLLM is not installed"),
        (("sampler.type=vllm", "sampler.python=/nowhere/python"), {}, "is no interpreter here"),
        (
            ("training.engine.device=cuda",),
            {"devices": (Device(name="a card", memory=10_000_000),)},
            "each training process holds 39 MiB before the first token, and a card has 10 MiB",
        ),
    ],
)
def test_what_a_machine_lacks_is_told(overrides, machine, wanted):
    (fault,) = told(load(*overrides), **machine)
    assert wanted in fault


@pytest.mark.skipif(importlib.util.find_spec("liger_kernel") is not None, reason="liger-kernel is installed")
def test_a_head_kernel_that_is_not_installed_is_told():
    card = Device(name="a card", memory=100_000_000)
    wanted = ("training.engine.device=cuda", "training.engine.head_kernel=liger")
    (fault,) = told(load(*wanted), devices=(card,))
    assert "liger-kernel is not installed: pip install 'spade-agents[liger]'" in fault
    assert told(load(*wanted[:1], "training.engine.head_kernel=auto"), devices=(card,)) == []


def test_a_sampler_on_the_same_device_leaves_less_room():
    card = Device(name="a card", memory=100_000_000)
    shared = ("training.engine.device=cuda", "sampler.type=vllm", "sampler.url=http://x", "sampler.memory_share=0.9")
    assert told(load(*shared), devices=(card,)) == []
    (fault,) = told(load(*shared, "sampler.placement=colocated"), devices=(card,))
    assert "has 10 MiB beside the sampler's 90%" in fault


def test_needs_of_a_model_that_is_neither_here_nor_known_are_not_guessed():
    assert needs_of(load("model.start=models/Unheard-Of-7B"), MACHINE) is None
    assert needs_of(load("model.start=models/Qwen3-8B"), MACHINE).parameters == 8_190_735_360
