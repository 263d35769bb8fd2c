"""The policy loss against numbers worked out by hand, finite differences and an exact gradient."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from spade_agents.training.advantages import group_advantages
from spade_agents.training.batch import MicroBatch, kept_samples, micro_batches
from spade_agents.training.config import ImportanceExcess, ImportanceLevel, LossConfig, Normalisation
from spade_agents.training.forward import Tokens, TrainableForward
from spade_agents.training.loss import (
    bounded_weights,
    clipped_objective,
    importance_ratios,
    low_variance_kl,
    policy_loss,
)
from spade_agents.trajectory import Role
from tests.agents.training.toy import toy_llama, toy_samples


def batch_of(
    *,
    rollout: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    rows: torch.Tensor | None = None,
) -> MicroBatch:
    nothing = torch.zeros(0, dtype=torch.long)
    tokens = Tokens(nothing, nothing, nothing, nothing)
    return MicroBatch(
        tokens=tokens,
        rollout=rollout,
        advantages=advantages,
        weights=weights,
        rows=torch.zeros(len(weights), dtype=torch.long) if rows is None else rows,
        samples=(),
    )


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


def weights_of(old, rollout, *, cap=2.0, rows=None, level="token", excess="truncate"):
    rows = torch.zeros(len(old), dtype=torch.long) if rows is None else torch.tensor(rows)
    ratios = importance_ratios(torch.tensor(old), torch.tensor(rollout), rows, level=ImportanceLevel(level))
    return bounded_weights(ratios, cap=cap, excess=ImportanceExcess(excess))


# Per token the ratios are 1.5, 0.5, 3 and 1.2; over the first three tokens their product is 2.25, of the last 1.2.
OLD = [math.log(0.6), math.log(0.2), math.log(0.9), math.log(0.6)]
ROLLOUT = [math.log(0.4), math.log(0.4), math.log(0.3), math.log(0.5)]


@pytest.mark.parametrize(
    ("level", "excess", "cap", "expected"),
    [
        ("token", "truncate", 2.0, [1.5, 0.5, 2.0, 1.2]),
        ("token", "mask", 2.0, [1.5, 0.5, 0.0, 1.2]),
        ("token", "truncate", 1.0, [1.0, 0.5, 1.0, 1.0]),
        ("token", "truncate", math.inf, [1.5, 0.5, 3.0, 1.2]),
        ("sequence", "truncate", 2.0, [2.0, 2.0, 2.0, 1.2]),
        ("sequence", "mask", 2.0, [0.0, 0.0, 0.0, 1.2]),
        ("sequence", "truncate", math.inf, [2.25, 2.25, 2.25, 1.2]),
        ("sequence", "mask", 2.3, [2.25, 2.25, 2.25, 1.2]),
    ],
)
def test_importance_weights_by_hand(level, excess, cap, expected):
    weights = weights_of(OLD, ROLLOUT, cap=cap, rows=[0, 0, 0, 1], level=level, excess=excess)
    assert weights.tolist() == pytest.approx(expected)


def test_a_weight_at_its_cap_is_not_above_it():
    assert weights_of([0.0], [0.0], cap=1.0, excess="mask").tolist() == [1.0]


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_importance_weights_are_constants(level):
    old = torch.tensor([-1.0], requires_grad=True)
    rows = torch.zeros(1, dtype=torch.long)
    assert not importance_ratios(old, torch.tensor([-2.0]), rows, level=ImportanceLevel(level)).requires_grad


def test_a_sequences_weight_makes_the_expectation_exact_where_a_tokens_does_not():
    """Two tokens of two letters, drawn from another policy: Σ π_rollout·w·f = Σ π_old·f holds for the product alone."""
    chance, drawn = [0.3, 0.8], [0.6, 0.5]  # of letter 1, first and second token

    def value(level: str) -> float:
        mean = 0.0
        for letters in itertools.product((0, 1), repeat=2):
            old = [p if letter else 1 - p for p, letter in zip(chance, letters, strict=True)]
            rollout = [p if letter else 1 - p for p, letter in zip(drawn, letters, strict=True)]
            weights = weights_of(
                [math.log(p) for p in old], [math.log(p) for p in rollout], cap=math.inf, level=level
            ).tolist()
            # Each token's term is weighted by its own weight; f is 1 where both letters are 1.
            mean += math.prod(rollout) * sum(weights) / 2 * float(letters == (1, 1))
        return mean

    exact = 0.3 * 0.8
    assert value("sequence") == pytest.approx(exact)
    assert abs(value("token") - exact) > 0.05


def test_a_masked_token_leaves_the_loss_but_not_the_normaliser():
    batch = batch_of(
        rollout=torch.tensor(ROLLOUT),
        advantages=torch.tensor([1.0, 1.0, 1.0, -1.0]),
        weights=torch.full((4,), 0.25),
        rows=torch.tensor([0, 0, 0, 1]),
    )
    config = LossConfig(importance_level=ImportanceLevel.SEQUENCE, importance_excess=ImportanceExcess.MASK)
    loss, stats = policy_loss(torch.tensor(OLD), batch, config, old=torch.tensor(OLD))
    assert loss.item() == pytest.approx(0.25 * 1.2)
    assert (stats.truncated, stats.tokens) == (3, 4)
    assert stats.mismatch_max == pytest.approx(2.25)
    assert stats.weight_sum == pytest.approx(1.2)


def test_a_cap_of_nothing_is_refused():
    with pytest.raises(ValueError, match="found importance_cap = 0"):
        LossConfig(importance_cap=0.0)


def test_a_role_of_weight_three_moves_the_gradient_three_times_as_far():
    samples = [replace(s, advantage=1.0) for s in toy_samples(2)]
    gradients = []
    for weight in (1.0, 3.0):
        forward = TrainableForward(toy_llama())
        weighted = [replace(s, advantage=weight * s.advantage, role=Role.DESIGNER) for s in samples]
        for batch in micro_batches(weighted, token_budget=40, normalisation=Normalisation.SAMPLE_MEAN):
            logprobs = forward(*batch.tokens)
            policy_loss(logprobs, batch, LossConfig(), old=logprobs).loss.backward()
        gradients.append([p.grad for p in forward.parameters()])
    for once, thrice in zip(*gradients, strict=True):
        torch.testing.assert_close(3.0 * once, thrice, atol=1e-5, rtol=1e-4)


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


@pytest.mark.parametrize("excess", list(ImportanceExcess))
@pytest.mark.parametrize("level", list(ImportanceLevel))
def test_the_gradient_agrees_with_finite_differences(level, excess):
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
        rows=torch.tensor([0, 0, 1, 2, 2]),
    )
    config = LossConfig(kl_coefficient=0.05, importance_level=level, importance_excess=excess)

    def loss(values: torch.Tensor) -> torch.Tensor:
        logprobs = (values / heat[:, None]).log_softmax(-1)[torch.arange(rows), targets]
        return policy_loss(logprobs, batch, config, old=old, reference=reference).loss

    (analytic,) = torch.autograd.grad(loss(logits), logits)
    assert analytic.abs().sum() > 0.1
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


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_plays_of_weights_one_update_behind_give_the_exact_gradient_by_their_importance_weights(temperature):
    """Drawn with chance q where the trainer has p, a pair whose returns differ (chance 2q(1 − q)) contributes
    ½ (p/q ∇log p − (1 − p)/(1 − q) ∇log(1 − p)) = ½ ∇p (1/q + 1/(1 − q)): in expectation ∇p again.
    """
    torch.manual_seed(0)
    logits = torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)
    behind = (torch.tensor([-0.1, 0.1], dtype=torch.float64) / temperature).log_softmax(-1)
    pairs = 40_000
    arms = torch.multinomial(behind.exp(), 2 * pairs, replacement=True).view(pairs, 2)
    advantages = torch.tensor([group_advantages([float(a == 0) for a in pair]) for pair in arms.tolist()]).double()
    flat = arms.flatten()
    logprobs = (logits / temperature).log_softmax(-1)[flat]

    def estimate(rollout: torch.Tensor) -> float:
        batch = batch_of(
            rollout=rollout,
            advantages=advantages.flatten(),
            weights=torch.full((2 * pairs,), 1 / (2 * pairs), dtype=torch.float64),
        )
        loss = policy_loss(logprobs, batch, LossConfig(), old=logprobs).loss
        return torch.autograd.grad(-loss, logits, retain_graph=True)[0][0].item()

    p, q = ((values / temperature).softmax(-1)[0].item() for values in (logits, torch.tensor([-0.1, 0.1])))
    exact, differ = p * (1 - p) / temperature, 2 * q * (1 - q)
    deviation = exact / differ * (differ * (1 - differ)) ** 0.5 / pairs**0.5
    assert estimate(behind[flat]) == pytest.approx(exact, abs=4 * deviation)
    # Taken for plays of the newest weights they would give q(1 − q)/T.
    assert abs(estimate(logprobs.detach()) - exact) > 4 * deviation


def test_scoring_at_another_temperature_than_the_sampling_one_would_bias_the_weight():
    logits = [2.0, 0.0]
    sampled = (torch.tensor(logits) / 0.6).log_softmax(-1)[0].item()
    assert weights_of([sampled], [sampled]).item() == 1.0
    assert weights_of([torch.tensor(logits).log_softmax(-1)[0].item()], [sampled]).item() < 0.92
