"""The torch engine: updates, exact resumption, export."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from spade_agents.errors import CheckpointError, PolicyError, UsageError
from spade_agents.training.config import LossConfig, OptimizerConfig, Packing, Precision, TorchEngineConfig
from spade_agents.training.engine import open_engine
from spade_agents.training.forward import TrainableForward
from spade_agents.training.samples import SupervisedSample
from spade_agents.training.torch_engine import TorchEngine, open_reference
from tests.agents.training.toy import prompted_samples, toy_llama, toy_samples

CONFIG = TorchEngineConfig(optimizer=OptimizerConfig(learning_rate=1e-2), token_budget=40)
REPLAY = (SupervisedSample(token_ids=(1, 2, 3, 4), mask=(False, False, True, True)),)


def equal(a, b) -> bool:
    return all(torch.equal(a[name], b[name]) for name in b)


def on_policy(engine: TorchEngine, samples):
    """The same samples as this engine's weights would have scored them."""
    return [replace(s, logprobs=p) for s, p in zip(samples, engine.logprobs(samples), strict=True)]


def test_an_update_raises_what_was_rewarded_and_lowers_what_was_not():
    engine = TorchEngine(toy_llama(), CONFIG)
    samples = on_policy(engine, toy_samples(6))
    before = [sum(row) for row in engine.logprobs(samples)]
    for _ in range(5):
        engine.update(samples)
    after = [sum(row) for row in engine.logprobs(samples)]
    gains = [(b - a) * s.advantage for a, b, s in zip(before, after, samples, strict=True)]
    assert all(gain > 0 for gain in gains)


def test_an_on_policy_update_has_ratio_one_weight_one_and_a_full_effective_sample_size():
    engine = TorchEngine(toy_llama(), CONFIG)
    metrics = engine.update(on_policy(engine, toy_samples(6)))
    assert (metrics.ratio_mean, metrics.ratio_max, metrics.clipped_share) == (1.0, 1.0, 0.0)
    assert metrics.mismatch_mean == pytest.approx(1.0, abs=1e-5)
    assert metrics.effective_sample_size == pytest.approx(1.0, abs=1e-6)
    assert metrics.mismatch_kl == pytest.approx(0.0, abs=1e-6)
    assert (metrics.step, metrics.optimizer_steps, metrics.kept, metrics.dropped) == (1, 1, 6, 0)
    assert metrics.grad_norm > 0


def test_results_do_not_depend_on_the_token_budget():
    weights = []
    for budget in (20, 1000):
        engine = TorchEngine(toy_llama(), replace(CONFIG, token_budget=budget))
        engine.update(toy_samples(6), replay=REPLAY)
        weights.append(engine.state_dict())
    for name in weights[0]:
        torch.testing.assert_close(weights[0][name], weights[1][name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kl", [0.0, 0.05])
@pytest.mark.parametrize("packing", [Packing.PACKED, Packing.SHARED])
def test_updates_do_not_depend_on_the_packing(packing, kl):
    samples, results = prompted_samples(), []
    for chosen in (Packing.PADDED, packing):
        engine = TorchEngine(toy_llama(), replace(CONFIG, packing=chosen, loss=LossConfig(kl_coefficient=kl)))
        results.append([engine.update(samples, replay=REPLAY) for _ in range(3)])
        assert engine.logprobs(samples)[0][:12] == (0.0,) * 12
    for ours, plain in zip(*reversed(results), strict=True):
        assert ours.loss == pytest.approx(plain.loss, abs=1e-5)
        assert ours.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)


@pytest.mark.parametrize("packing", list(Packing))
def test_scores_come_back_in_the_samples_own_order(packing):
    samples = prompted_samples(3, 4)
    engine = TorchEngine(toy_llama(), replace(CONFIG, packing=packing, token_budget=70))
    together = engine.logprobs(samples)
    for sample, scores in zip(samples, together, strict=True):
        (alone,) = engine.logprobs([sample])
        assert scores == pytest.approx(alone, abs=1e-5)
        assert [score != 0.0 for score in scores] == list(sample.mask)


def test_zero_advantage_samples_cost_no_forward_pass_and_change_nothing():
    samples = toy_samples(6)
    padded = samples + [replace(s, advantage=0.0) for s in toy_samples(4, seed=9)]
    first, second = TorchEngine(toy_llama(), CONFIG), TorchEngine(toy_llama(), CONFIG)
    metrics, wide = first.update(samples), second.update(padded)
    assert (wide.kept, wide.dropped, wide.tokens) == (6, 4, metrics.tokens)
    assert equal(first.state_dict(), second.state_dict())


def test_an_update_without_any_gradient_counts_as_a_step_and_moves_no_weight():
    engine = TorchEngine(toy_llama(), CONFIG)
    before = engine.state_dict()
    metrics = engine.update([replace(s, advantage=0.0) for s in toy_samples(3)])
    assert (metrics.optimizer_steps, metrics.step, engine.step, metrics.dropped) == (0, 1, 1, 3)
    assert metrics.ratio_mean is None
    assert equal(engine.state_dict(), before)
    assert engine.update([]).optimizer_steps == 0


def test_replay_alone_is_supervised_training():
    engine = TorchEngine(toy_llama(), CONFIG)
    losses = [engine.update((), replay=REPLAY).replay_loss for _ in range(10)]
    assert losses[-1] < losses[0] / 2


def test_replay_is_a_second_term_with_its_weight():
    samples = toy_samples(4)
    metrics = TorchEngine(toy_llama(), replace(CONFIG, loss=LossConfig(replay_weight=0.5))).update(
        samples, replay=REPLAY
    )
    alone = TorchEngine(toy_llama(), CONFIG)
    assert metrics.policy_loss == pytest.approx(alone.update(samples).loss)
    assert metrics.replay_tokens == 2
    assert metrics.loss == pytest.approx(metrics.policy_loss + 0.5 * metrics.replay_loss)


def test_several_steps_an_update_share_the_samples_and_the_ratio_leaves_one():
    config = replace(CONFIG, updates_per_rollout=2, epochs=2)
    metrics = TorchEngine(toy_llama(), config).update(toy_samples(6))
    assert metrics.optimizer_steps == 4
    assert metrics.ratio_max is not None
    assert metrics.ratio_max > 1.001


def test_the_penalty_pulls_towards_the_model_the_engine_was_opened_with():
    config = replace(CONFIG, loss=LossConfig(kl_coefficient=0.005))
    engine = TorchEngine(toy_llama(), config)
    samples = toy_samples(6)
    assert engine.update(samples).kl == pytest.approx(0.0, abs=1e-7)
    assert engine.update(samples).kl > 1e-4


def test_no_reference_is_held_at_coefficient_0():
    forward = TrainableForward(toy_llama())
    assert open_reference(forward, CONFIG) is None
    held = open_reference(forward, replace(CONFIG, loss=LossConfig(kl_coefficient=0.005)))
    assert not any(parameter.requires_grad for parameter in held.parameters())


@pytest.mark.parametrize("kl", [0.0, 0.005])
def test_a_loaded_engine_goes_on_to_the_bit(tmp_path: Path, kl: float):
    config = replace(CONFIG, loss=LossConfig(kl_coefficient=kl))
    engine, samples = TorchEngine(toy_llama(), config), toy_samples(6)
    engine.update(samples)
    engine.save(tmp_path)
    resumed = TorchEngine(toy_llama(seed=5), config)
    resumed.load(tmp_path)
    assert resumed.step == 1
    first, second = engine.update(samples), resumed.update(samples)
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    assert equal(engine.state_dict(), resumed.state_dict())


def test_an_export_loads_in_transformers_with_the_same_weights_and_the_sources_tokenizer(tmp_path, toy_folder):
    (Path(toy_folder) / "tokenizer_config.json").write_text("{}")
    engine = open_engine(CONFIG, Path(toy_folder))
    engine.update(toy_samples(6))
    engine.export(tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer_config.json").read_text() == "{}"
    assert "spade_causal" not in (tmp_path / "out" / "config.json").read_text()
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.config._attn_implementation == "sdpa"
    assert equal(model.state_dict(), engine.state_dict())


def test_state_dicts_are_copies_under_hugging_face_names():
    engine = TorchEngine(toy_llama(), CONFIG)
    before = engine.state_dict()
    assert "model.layers.0.self_attn.q_proj.weight" in before
    engine.update(toy_samples(6))
    assert not equal(before, engine.state_dict())


def test_bf16_trains_and_keeps_fp32_weights():
    engine = TorchEngine(toy_llama(), replace(CONFIG, precision=Precision.BF16))
    before = engine.state_dict()
    assert math.isfinite(engine.update(toy_samples(6)).loss)
    assert all(value.dtype is torch.float32 for value in engine.state_dict().values())
    assert not equal(before, engine.state_dict())


def test_bf16_weights_are_bf16_throughout_and_lose_steps_below_their_last_bit():
    small = replace(CONFIG, optimizer=OptimizerConfig(learning_rate=1e-6, weight_decay=0.0))
    moved = {}
    for precision in (Precision.BF16, Precision.BF16_WEIGHTS):
        engine = TorchEngine(toy_llama(), replace(small, precision=precision))
        before = engine.state_dict()
        assert math.isfinite(engine.update(toy_samples(6)).loss)
        after = engine.state_dict()
        moved[precision] = sum(int((after[name] != before[name]).sum()) for name in after)
    assert {parameter.dtype for parameter in engine.forward.parameters()} == {torch.bfloat16}
    assert moved[Precision.BF16] > 20 * moved[Precision.BF16_WEIGHTS]


def test_a_checkpointed_update_is_the_same_update():
    first, second = (
        TorchEngine(toy_llama(), replace(CONFIG, gradient_checkpointing=chosen)) for chosen in (False, True)
    )
    assert first.update(toy_samples(6)).loss == second.update(toy_samples(6)).loss
    for name, value in first.state_dict().items():
        torch.testing.assert_close(value, second.state_dict()[name], atol=1e-6, rtol=1e-5)


def test_a_loss_that_is_not_finite_stops_the_update_and_leaves_the_weights():
    engine = TorchEngine(toy_llama(), CONFIG)
    before = engine.state_dict()
    samples = [replace(s, advantage=float("nan")) for s in toy_samples(2)]
    with pytest.raises(PolicyError, match="not finite"):
        engine.update(samples)
    assert equal(engine.state_dict(), before)
    assert engine.step == 0


def test_missing_and_corrupt_checkpoints_say_so(tmp_path: Path):
    engine = TorchEngine(toy_llama(), CONFIG)
    with pytest.raises(CheckpointError, match=r"no engine\.pt"):
        engine.load(tmp_path)
    (tmp_path / "engine.pt").write_bytes(b"broken")
    with pytest.raises(CheckpointError, match="corrupt"):
        engine.load(tmp_path)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path):
    TorchEngine(toy_llama(hidden_size=32), CONFIG).save(tmp_path)
    with pytest.raises(CheckpointError, match="not of this model"):
        TorchEngine(toy_llama(), CONFIG).load(tmp_path)


def test_a_folder_without_a_model_is_a_usage_error(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no config\.json"):
        open_engine(CONFIG, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="does not load"):
        open_engine(CONFIG, tmp_path)


def test_threads_are_set_for_the_update_only():
    before = torch.get_num_threads()
    TorchEngine(toy_llama(), replace(CONFIG, threads=before + 1)).update(toy_samples(2))
    assert torch.get_num_threads() == before
