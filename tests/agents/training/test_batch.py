"""Micro-batches: what is kept, how rows are cut, and each token's share of the loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spade_agents.training.batch import kept_samples, micro_batches, partition
from spade_agents.training.config import Normalisation
from spade_agents.trajectory import Role, TrainingSample
from tests.agents.training.toy import toy_samples


def sample(trained: int, advantage: float = 1.0, prompt: int = 2, tail: int = 0) -> TrainingSample:
    mask = (False,) * prompt + (True,) * trained + (False,) * tail
    return TrainingSample(
        token_ids=tuple(range(1, len(mask) + 1)),
        mask=mask,
        logprobs=tuple(-0.1 * place if chosen else 0.0 for place, chosen in enumerate(mask)),
        advantage=advantage,
        role=Role.AGENT,
        group="e",
    )


def test_rows_are_sorted_by_length_and_cut_by_padded_tokens():
    assert partition([3, 10, 4, 9, 2], token_budget=20) == [[1, 3], [2, 0, 4]]
    assert partition([50, 1], token_budget=20) == [[0], [1]]
    assert partition([], token_budget=20) == []


def test_samples_without_advantage_or_without_sampled_tokens_are_dropped():
    samples = [sample(2, 1.0), sample(2, 0.0), sample(0, 1.0), sample(1, -0.5)]
    assert kept_samples(samples) == [samples[0], samples[3]]


def test_a_token_weighs_one_over_its_samples_tokens_times_samples():
    (batch,) = micro_batches([sample(1), sample(3)], token_budget=100, normalisation=Normalisation.SAMPLE_MEAN)
    assert batch.samples == (1, 0)
    torch.testing.assert_close(batch.weights, torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2]))


def test_under_the_token_mean_all_tokens_weigh_the_same():
    (batch,) = micro_batches([sample(1), sample(3)], token_budget=100, normalisation=Normalisation.TOKEN_MEAN)
    torch.testing.assert_close(batch.weights, torch.full((4,), 0.25))


@pytest.mark.parametrize("normalisation", list(Normalisation))
def test_shares_of_all_micro_batches_sum_to_one(normalisation):
    batches = micro_batches(toy_samples(9), token_budget=30, normalisation=normalisation)
    assert len(batches) > 3
    assert sum(float(batch.weights.sum()) for batch in batches) == pytest.approx(1.0)


def test_positions_point_at_the_token_before_each_target_and_tails_are_cut():
    (batch,) = micro_batches([sample(2, tail=5)], token_budget=100, normalisation=Normalisation.SAMPLE_MEAN)
    assert batch.tokens.input_ids.tolist() == [[1, 2, 3]]
    assert batch.tokens.positions.tolist() == [1, 2]
    assert batch.tokens.targets.tolist() == [3, 4]
    torch.testing.assert_close(batch.rollout, torch.tensor([-0.2, -0.3]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0.0}, "above 0"),
        ({"logprobs": (0.0,)}, "log-probabilities for"),
        ({"mask": (True,)}, "mask values"),
        ({"mask": (True, False, False, True)}, "nothing comes before it"),
    ],
)
def test_a_malformed_sample_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        micro_batches([replace(sample(2), **change)], token_budget=100, normalisation=Normalisation.SAMPLE_MEAN)
