"""Log-probabilities at trained positions equal those of the full logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_layers import GradientCheckpointingLayer

import spade_agents.nano
from spade_agents.errors import PolicyError, UsageError
from spade_agents.training.batch import MicroBatch, collate, micro_batches
from spade_agents.training.config import LossConfig, Normalisation, Packing, Precision
from spade_agents.training.folder import load_model
from spade_agents.training.forward import TrainableForward
from spade_agents.training.loss import policy_loss
from tests.agents.training.toy import prompted_samples, toy_llama, toy_samples

NANO = Path(spade_agents.nano.__file__).parent / "model"


def toy_qwen() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=31,
        hidden_size=16,
        head_dim=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=24,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    return Qwen3ForCausalLM(config).eval()


def batches(packing: Packing, token_budget: int = 1000) -> list[MicroBatch]:
    return micro_batches(
        prompted_samples(), token_budget=token_budget, normalisation=Normalisation.SAMPLE_MEAN, packing=packing
    )


def loss_and_gradient(forward: TrainableForward, packing: Packing, token_budget: int = 1000):
    losses = []
    for batch in batches(packing, token_budget):
        logprobs = forward(*batch.tokens)
        # π_old a little off, so that ratio, clip and weights all take part.
        loss = policy_loss(logprobs, batch, LossConfig(), old=logprobs.detach() - 0.1).loss
        loss.backward()
        losses.append(loss.item())
    return sum(losses), {name: p.grad.clone() for name, p in forward.named_parameters()}


@pytest.mark.parametrize("model", [toy_llama, toy_qwen])
@pytest.mark.parametrize("token_budget", [60, 1000])
@pytest.mark.parametrize("packing", [Packing.PACKED, Packing.SHARED])
def test_packed_and_shared_rows_give_the_plain_loss_and_gradient_to_1e_5(packing, token_budget, model):
    plain, expected = loss_and_gradient(TrainableForward(model()), Packing.PADDED)
    loss, gradient = loss_and_gradient(TrainableForward(model()), packing, token_budget)
    assert loss == pytest.approx(plain, abs=1e-5)
    assert gradient.keys() == expected.keys()
    for name, value in gradient.items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-4)


def test_nanos_shared_rows_give_its_plain_loss_and_gradient_to_1e_5():
    plain, expected = loss_and_gradient(TrainableForward(load_model(NANO)), Packing.PADDED)
    loss, gradient = loss_and_gradient(TrainableForward(load_model(NANO)), Packing.SHARED)
    assert loss == pytest.approx(plain, abs=1e-5)
    for name, value in gradient.items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-4)


def test_logits_are_computed_for_trained_tokens_alone():
    forward, rows = TrainableForward(toy_llama()), []
    forward.model.lm_head.register_forward_pre_hook(lambda _, given: rows.append(len(given[0])))
    (batch,) = batches(Packing.SHARED)
    forward(*batch.tokens)
    assert rows == [sum(sum(sample.mask) for sample in prompted_samples())]


def test_a_shared_prompt_is_computed_once():
    assert [batch.tokens.input_ids.shape[0] for batch in batches(Packing.SHARED)] == [1]
    computed = {packing: sum(b.tokens.input_ids.numel() for b in batches(packing)) for packing in Packing}
    assert computed[Packing.PACKED] - computed[Packing.SHARED] == 2 * 2 * 12
    assert computed[Packing.PACKED] < computed[Packing.PADDED]


@pytest.mark.parametrize("model", [toy_llama, toy_qwen])
def test_packed_rows_give_what_the_librarys_own_attention_gives_under_the_layouts_mask(model):
    (batch,) = batches(Packing.SHARED)
    tokens, library = batch.tokens, model()
    library.set_attn_implementation("sdpa")
    mask = tokens.layout.mask()[None, None]
    logits = library(input_ids=tokens.input_ids, position_ids=tokens.position_ids, attention_mask=mask).logits[0]
    scaled = logits[tokens.positions] / tokens.temperatures[:, None]
    expected = scaled.log_softmax(-1).gather(1, tokens.targets[:, None])[:, 0]
    torch.testing.assert_close(TrainableForward(model())(*tokens), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("precision", list(Precision))
def test_gradient_checkpointing_changes_no_gradient(precision):
    results = []
    for checkpointing in (False, True):
        model = toy_llama().to(torch.bfloat16 if precision is Precision.BF16_WEIGHTS else torch.float32)
        forward = TrainableForward(model, precision, gradient_checkpointing=checkpointing)
        results.append(loss_and_gradient(forward, Packing.SHARED))
    assert results[0][0] == results[1][0]
    for name, value in results[1][1].items():
        torch.testing.assert_close(value, results[0][1][name], atol=1e-6, rtol=1e-4)


def test_checkpointed_layers_run_again_in_the_backward_pass_and_only_there():
    forward = TrainableForward(toy_llama(), gradient_checkpointing=True)
    calls = []
    layer = next(module for module in forward.modules() if isinstance(module, GradientCheckpointingLayer))
    layer.mlp.register_forward_pre_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    (batch,) = batches(Packing.SHARED)
    with torch.no_grad():
        forward(*batch.tokens)
    assert calls == [False]
    forward.eval()
    forward(*batch.tokens).sum().backward()
    assert calls == [False, True, True]


def test_a_model_with_windows_is_refused_for_packed_rows_when_it_is_opened_and_trains_padded():
    model = toy_llama()
    model.config.layer_types = ["sliding_attention", "full_attention"]
    with pytest.raises(UsageError, match=r'found shared rows for a model of type llama.*packing = "padded"'):
        TrainableForward(model, packing=Packing.SHARED)
    forward = TrainableForward(model)
    forward(*batches(Packing.PADDED)[0].tokens)
    with pytest.raises(PolicyError, match="found a packed row"):
        forward(*batches(Packing.SHARED)[0].tokens)


def test_a_model_without_checkpointed_layers_is_refused():
    model = toy_llama()
    model.model.layers = torch.nn.ModuleList()
    with pytest.raises(UsageError, match="cannot checkpoint its layers"):
        TrainableForward(model, gradient_checkpointing=True)


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_log_probabilities_are_those_of_the_librarys_full_logits_at_the_sampling_temperature(temperature):
    samples = toy_samples(5, temperature=temperature)
    library, expected = toy_llama(), []
    for sample in samples:
        ids = torch.tensor([sample.token_ids])
        scores = (library(input_ids=ids).logits[0] / temperature).log_softmax(-1)
        expected += [scores[p - 1, sample.token_ids[p]] for p, chosen in enumerate(sample.mask) if chosen]
    tokens = collate(samples, [temperature] * len(samples))
    torch.testing.assert_close(TrainableForward(toy_llama())(*tokens), torch.stack(expected), atol=1e-5, rtol=1e-4)


def test_bf16_stays_close_to_fp32_and_returns_fp32():
    tokens = collate(toy_samples(5))
    exact = TrainableForward(toy_llama())(*tokens)
    coarse = TrainableForward(toy_llama(), Precision.BF16)(*tokens)
    assert coarse.dtype is torch.float32
    assert not torch.equal(exact, coarse)
    torch.testing.assert_close(coarse, exact, atol=0.15, rtol=0.05)


def test_a_model_that_changes_its_logits_after_the_head_is_refused():
    model = toy_llama()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(PolicyError, match="final_logit_softcapping"):
        TrainableForward(model)
