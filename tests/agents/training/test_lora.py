"""LoRA: frozen weights, merged ones at sync and export, the frozen model as the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from spade_agents.errors import UsageError
from spade_agents.training.config import LoraConfig, LossConfig, OptimizerConfig, Precision, TorchEngineConfig
from spade_agents.training.folder import load_model
from spade_agents.training.lora import add_lora, has_lora, merged_state, without_lora
from spade_agents.training.torch_engine import TorchEngine
from tests.agents.training.toy import prompted_samples, toy_llama

CONFIG = TorchEngineConfig(
    optimizer=OptimizerConfig(learning_rate=1e-2), token_budget=200, lora=LoraConfig(rank=4, alpha=8.0)
)


def moved_engine(**changes) -> TorchEngine:
    engine = TorchEngine(toy_llama(), replace(CONFIG, **changes))
    engine.update(prompted_samples())
    return engine


def adapters(model) -> dict[str, torch.Tensor]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def test_adapters_begin_as_no_change_and_are_all_that_is_trained():
    model, plain = toy_llama(), toy_llama()
    ids = torch.tensor([[1, 2, 3, 4]])
    add_lora(model, CONFIG.lora)
    assert has_lora(model)
    assert not has_lora(plain)
    assert torch.equal(model(input_ids=ids).logits, plain(input_ids=ids).logits)
    assert all("lora_" in name for name in adapters(model))
    assert len(adapters(model)) == 2 * 7 * 2  # A and B at seven linear layers of two blocks
    assert not any("lm_head" in name or "embed" in name for name in adapters(model))


def test_a_merged_weight_worked_out_by_hand():
    model = toy_llama()
    add_lora(model, LoraConfig(rank=1, alpha=3.0, targets=("q_proj",)))
    layer = model.model.layers[0].self_attn.q_proj
    with torch.no_grad():
        layer.lora_A["default"].weight.copy_(torch.arange(16.0)[None])
        layer.lora_B["default"].weight.copy_(torch.ones(16, 1))
    before = toy_llama().state_dict()["model.layers.0.self_attn.q_proj.weight"]
    merged = merged_state(model)
    torch.testing.assert_close(
        merged["model.layers.0.self_attn.q_proj.weight"], before + 3.0 * torch.arange(16.0).expand(16, 16)
    )
    assert merged.keys() == toy_llama().state_dict().keys()


def test_the_seed_decides_the_adapters_and_leaves_the_processs_own_numbers_alone():
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first, second, third = toy_llama(), toy_llama(), toy_llama()
    torch.random.set_rng_state(state)
    for model, seed in ((first, 1), (second, 1), (third, 2)):
        add_lora(model, LoraConfig(seed=seed))
    assert torch.equal(torch.random.get_rng_state(), state)
    pairs = list(zip(*(adapters(model).values() for model in (first, second, third)), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert any(not torch.equal(a, c) for a, _, c in pairs)


def test_merged_weights_score_as_the_adapted_model_does():
    engine, samples = moved_engine(), prompted_samples()
    merged = toy_llama(seed=3)
    merged.load_state_dict(engine.state_dict())
    plain = TorchEngine(merged, replace(CONFIG, lora=None))
    for ours, theirs in zip(engine.logprobs(samples), plain.logprobs(samples), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    before = TorchEngine(toy_llama(), replace(CONFIG, lora=None)).logprobs(samples)
    assert max(abs(a - b) for a, b in zip(engine.logprobs(samples)[0], before[0], strict=True)) > 1e-2


def test_an_export_is_a_plain_folder_with_merged_weights(tmp_path: Path):
    engine = moved_engine()
    engine.export(tmp_path)
    assert not list(tmp_path.glob("adapter*"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    expected = engine.state_dict()
    assert model.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())
    assert type(load_model(tmp_path)).__name__ == "LlamaForCausalLM"


def test_only_weights_beside_adapters_change():
    engine, before = moved_engine(), toy_llama().state_dict()
    changed = {name for name, value in engine.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if name.endswith("_proj.weight")}


def test_the_reference_is_the_frozen_model_and_no_second_copy():
    engine = TorchEngine(toy_llama(), replace(CONFIG, loss=LossConfig(kl_coefficient=0.05)))
    whole = TorchEngine(toy_llama(), replace(CONFIG, lora=None, loss=LossConfig(kl_coefficient=0.05)))
    samples = prompted_samples()
    assert engine.update(samples).kl == pytest.approx(0.0, abs=1e-7)
    moved = engine.update(samples)
    assert moved.kl > 1e-4
    with without_lora(engine.forward):
        scores = engine.logprobs(samples)
    for ours, theirs in zip(
        scores, TorchEngine(toy_llama(), replace(CONFIG, lora=None)).logprobs(samples), strict=True
    ):
        assert ours == pytest.approx(theirs, abs=1e-6)
    assert sum(1 for p in engine.forward.parameters() if p.requires_grad) == 28
    assert whole.update(samples).kl == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_a_loaded_engine_goes_on_to_the_bit_even_from_an_export(tmp_path: Path, precision: Precision):
    config = replace(CONFIG, precision=precision, loss=LossConfig(kl_coefficient=0.05))
    engine, samples = TorchEngine(toy_llama(), config), prompted_samples()
    engine.update(samples)
    engine.export(tmp_path / "model")
    engine.save(tmp_path / "engine")
    resumed = TorchEngine.open(config, tmp_path / "model")
    resumed.load(tmp_path / "engine")
    first, second = engine.update(samples), resumed.update(samples)
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    for name, value in engine.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name])


def test_under_bf16_the_frozen_weights_are_bf16_and_the_adapters_fp32():
    engine = moved_engine(precision=Precision.BF16)
    kinds = {parameter.requires_grad: parameter.dtype for parameter in engine.forward.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}
    assert all(value.dtype is torch.float32 for value in engine.state_dict().values())


def test_lora_goes_with_gradient_checkpointing():
    plain, checkpointed = moved_engine(), moved_engine(gradient_checkpointing=True)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(value, checkpointed.state_dict()[name], atol=1e-6, rtol=1e-5)


def test_unknown_layers_and_ranks_are_refused():
    with pytest.raises(UsageError, match=r"found lora.targets = \['nowhere'\]"):
        add_lora(toy_llama(), LoraConfig(targets=("nowhere",)))
    with pytest.raises(ValueError, match="found rank = 0"):
        LoraConfig(rank=0)
