"""The policy loss against numbers worked out by hand, finite differences and an exact gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from spade_agents.training.advantages import group_advantages
from spade_agents.training.batch import MicroBatch, kept_samples, micro_batches
from spade_agents.training.config import LossConfig, Normalisation
from spade_agents.training.forward import Tokens, TrainableForward
from spade_agents.training.loss import clipped_objective, importance_weights, low_variance_kl, policy_loss
from tests.agents.training.toy import toy_llama, toy_samples


def batch_of(*, rollout: torch.Tensor, advantages: torch.Tensor, weights: torch.Tensor) -> MicroBatch:
    nothing = torch.zeros(0, dtype=torch.long)
    tokens = Tokens(nothing, nothing, nothing, nothing)
    return MicroBatch(tokens=tokens, rollout=rollout, advantages=advantages, weights=weights, samples=())


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, 2.0),
        (1.5, 1.0, 1.28),
        (0.5, 1.0, 0.5),
        (0.5, -1.0, -0.8),
        (1.5, -1.0, -1.5),
        (1.27, 1.0, 1.27),
        (0.81, -1.0, -0.81),
    ],
)
def test_the_ratio_is_clipped_to_080_and_128_on_the_side_that_gains(ratio, advantage, expected):
    value = clipped_objective(torch.tensor([ratio]), torch.tensor([advantage]), low=0.2, high=0.28)
    assert value.item() == pytest.approx(expected)


def test_the_importance_weight_is_pi_old_over_pi_rollout_capped_at_two():
    old, rollout = torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.0, -1.0 - math.log(1.5), -3.0])
    assert importance_weights(old, rollout, cap=2.0).tolist() == pytest.approx([1.0, 1.5, 2.0])


def test_the_importance_weight_is_a_constant():
    old = torch.tensor([-1.0], requires_grad=True)
    assert not importance_weights(old, torch.tensor([-2.0]), cap=2.0).requires_grad


def test_the_low_variance_kl_is_exp_d_minus_d_minus_one():
    kl = low_variance_kl(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -2.0]))
    assert kl.tolist() == pytest.approx([math.exp(-0.5) + 0.5 - 1.0, 0.0])


def test_the_loss_is_the_weighted_sum_of_clipped_terms_times_importance_weights():
    old = torch.log(torch.tensor([0.5, 0.25]))
    batch = batch_of(
        rollout=torch.log(torch.tensor([0.4, 0.1])),
        advantages=torch.tensor([1.0, -2.0]),
        weights=torch.tensor([0.5, 0.5]),
    )
    logprobs = torch.log(torch.tensor([0.7, 0.30]))
    loss, stats = policy_loss(logprobs, batch, LossConfig(), old=old)
    # Ratios 1.4 (clipped to 1.28) and 1.2; weights 1.25 and 2.5 (capped to 2).
    assert loss.item() == pytest.approx(-(0.5 * 1.25 * 1.28 + 0.5 * 2.0 * 1.2 * -2.0))
    assert (stats.tokens, stats.clipped, stats.truncated) == (2, 1, 1)
    assert stats.ratio_sum == pytest.approx(2.6)
    assert stats.ratio_max == pytest.approx(1.4)
    assert stats.mismatch_sum == pytest.approx(3.75)
    assert stats.mismatch_max == pytest.approx(2.5)
    assert stats.weight_sum == pytest.approx(3.25)
    assert stats.weight_square_sum == pytest.approx(1.25**2 + 4.0)


def test_the_penalty_is_added_with_its_coefficient_and_not_weighted_by_importance():
    batch = batch_of(rollout=torch.tensor([-9.0]), advantages=torch.tensor([1.0]), weights=torch.tensor([1.0]))
    logprobs, reference = torch.tensor([-1.0]), torch.tensor([-1.5])
    config = LossConfig(kl_coefficient=0.005)
    loss, stats = policy_loss(logprobs, batch, config, old=logprobs, reference=reference)
    kl = math.exp(-0.5) + 0.5 - 1.0
    assert loss.item() == pytest.approx(-2.0 + 0.005 * kl)
    assert stats.kl == pytest.approx(kl)


def test_a_penalty_without_a_reference_is_an_error():
    batch = batch_of(rollout=torch.tensor([-1.0]), advantages=torch.tensor([1.0]), weights=torch.tensor([1.0]))
    with pytest.raises(ValueError, match="no reference"):
        policy_loss(torch.tensor([-1.0]), batch, LossConfig(kl_coefficient=0.1), old=torch.tensor([-1.0]))


def test_the_gradient_agrees_with_finite_differences():
    torch.manual_seed(0)
    rows, vocabulary = 5, 4
    targets = torch.tensor([0, 1, 2, 3, 1])
    heat = torch.tensor([0.6, 1.0, 0.6, 1.0, 0.8], dtype=torch.float64)
    logits = torch.randn(rows, vocabulary, dtype=torch.float64, requires_grad=True)
    old = -torch.rand(rows, dtype=torch.float64) - 1.0
    reference = -torch.rand(rows, dtype=torch.float64) - 1.0
    batch = batch_of(
        rollout=old + torch.tensor([0.1, -0.2, -3.0, 0.0, 0.3], dtype=torch.float64),
        advantages=torch.tensor([1.0, -1.0, 0.5, 2.0, -0.3], dtype=torch.float64),
        weights=torch.full((rows,), 0.2, dtype=torch.float64),
    )

    def loss(values: torch.Tensor) -> torch.Tensor:
        logprobs = (values / heat[:, None]).log_softmax(-1)[torch.arange(rows), targets]
        return policy_loss(logprobs, batch, LossConfig(kl_coefficient=0.05), old=old, reference=reference).loss

    (analytic,) = torch.autograd.grad(loss(logits), logits)
    step = 1e-6
    for row in range(rows):
        for column in range(vocabulary):
            shift = torch.zeros_like(logits)
            shift[row, column] = step
            with torch.no_grad():
                numeric = (loss(logits + shift) - loss(logits - shift)) / (2 * step)
            assert numeric.item() == pytest.approx(analytic[row, column].item(), abs=1e-7)


def test_dropping_equal_return_groups_equals_keeping_them_at_the_same_normaliser():
    samples = [replace(s, advantage=0.0) if i in (1, 4) else s for i, s in enumerate(toy_samples(6))]
    kept = kept_samples(samples)
    assert len(kept) == 4
    gradients = []
    for chosen, scale in ((kept, 1.0), (samples, len(samples) / len(kept))):
        forward = TrainableForward(toy_llama())
        for batch in micro_batches(chosen, token_budget=40, normalisation=Normalisation.SAMPLE_MEAN):
            logprobs = forward(*batch.tokens)
            (policy_loss(logprobs, batch, LossConfig(), old=logprobs).loss * scale).backward()
        gradients.append([p.grad.clone() for p in forward.parameters()])
    for dropped, whole in zip(*gradients, strict=True):
        torch.testing.assert_close(dropped, whole, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_on_a_two_armed_bandit_the_group_gradient_is_the_exact_policy_gradient(temperature):
    """A pair of plays counts +1 and −1 where its returns differ (chance 2pq), else nothing: its expected gradient is
    2pq · ½ (∇log p − ∇log q) = ∇p, the gradient of the expected return.
    """
    torch.manual_seed(0)
    logits = torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)
    chance = (logits / temperature).softmax(-1)
    pairs = 40_000
    arms = torch.multinomial(chance.detach(), 2 * pairs, replacement=True).view(pairs, 2)
    advantages = torch.tensor([group_advantages([float(a == 0) for a in pair]) for pair in arms.tolist()]).double()
    flat = arms.flatten()
    logprobs = (logits / temperature).log_softmax(-1)[flat]
    batch = batch_of(
        rollout=logprobs.detach(),
        advantages=advantages.flatten(),
        weights=torch.full((2 * pairs,), 1 / (2 * pairs), dtype=torch.float64),
    )
    (estimate,) = torch.autograd.grad(-policy_loss(logprobs, batch, LossConfig(), old=logprobs).loss, logits)
    (exact,) = torch.autograd.grad((logits / temperature).softmax(-1)[0], logits)
    p = chance[0].item()
    # A pair contributes ±1/(2T) with probability 2pq, else 0.
    deviation = (2 * p * (1 - p) * (1 - 2 * p * (1 - p))) ** 0.5 / (2 * temperature) / pairs**0.5
    assert estimate[0].item() == pytest.approx(exact[0].item(), abs=4 * deviation)
    assert abs(exact[0].item()) > 20 * deviation
    assert estimate.sum().item() == pytest.approx(0.0, abs=1e-12)


def test_scoring_at_another_temperature_than_the_sampling_one_would_bias_the_weight():
    logits = torch.tensor([2.0, 0.0])
    sampled = (logits / 0.6).log_softmax(-1)[0]
    assert importance_weights(sampled, sampled, cap=2.0).item() == 1.0
    assert importance_weights(logits.log_softmax(-1)[0], sampled, cap=2.0).item() < 0.92
