"""Micro-batches: what is kept, how rows are cut, and each token's share of the loss."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from spade_agents.training.batch import deal, kept_samples, micro_batches, partition
from spade_agents.training.config import Normalisation, Packing
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
    (batch,) = micro_batches(
        [sample(1), sample(3)], token_budget=100, normalisation=Normalisation.SAMPLE_MEAN, packing=Packing.PADDED
    )
    assert batch.samples == (1, 0)
    torch.testing.assert_close(batch.weights, torch.tensor([1 / 6, 1 / 6, 1 / 6, 1 / 2]))


def test_under_the_token_mean_all_tokens_weigh_the_same():
    (batch,) = micro_batches([sample(1), sample(3)], token_budget=100, normalisation=Normalisation.TOKEN_MEAN)
    torch.testing.assert_close(batch.weights, torch.full((4,), 0.25))


@pytest.mark.parametrize("normalisation", list(Normalisation))
def test_shares_of_all_micro_batches_sum_to_one(normalisation):
    batches = micro_batches(toy_samples(9), token_budget=30, normalisation=normalisation, packing=Packing.PADDED)
    assert len(batches) > 3
    assert sum(float(batch.weights.sum()) for batch in batches) == pytest.approx(1.0)


def test_positions_point_at_the_token_before_each_target_and_tails_are_cut():
    (batch,) = micro_batches(
        [sample(2, tail=5)], token_budget=100, normalisation=Normalisation.SAMPLE_MEAN, packing=Packing.PADDED
    )
    assert batch.tokens.input_ids.tolist() == [[1, 2, 3]]
    assert batch.tokens.positions.tolist() == [1, 2]
    assert batch.tokens.targets.tolist() == [3, 4]
    torch.testing.assert_close(batch.rollout, torch.tensor([-0.2, -0.3]))


def test_packed_positions_point_at_the_token_before_each_target_in_its_own_row():
    first, second = sample(2), replace(sample(2), token_ids=(1, 2, 9, 8))
    (batch,) = micro_batches([second, first], token_budget=100, normalisation=Normalisation.SAMPLE_MEAN)
    assert batch.samples == (1, 0)
    assert batch.tokens.input_ids.tolist() == [[1, 2, 3, 1, 2, 9]]
    assert batch.tokens.position_ids.tolist() == [[0, 1, 2, 0, 1, 2]]
    assert batch.tokens.positions.tolist() == [1, 2, 4, 5]
    assert batch.tokens.targets.tolist() == [3, 4, 9, 8]
    assert batch.rows.tolist() == [0, 0, 1, 1]


def test_samples_of_one_prompt_all_start_from_its_last_token():
    first, second = sample(2, prompt=20), sample(2, prompt=20)
    second = replace(second, token_ids=(*second.token_ids[:20], 98, 99))
    (batch,) = micro_batches([first, second], token_budget=100, normalisation=Normalisation.SAMPLE_MEAN)
    assert batch.tokens.input_ids.tolist() == [[*range(1, 21), 21, 98]]
    assert batch.tokens.positions.tolist() == [19, 20, 19, 21]
    assert batch.tokens.targets.tolist() == [21, 22, 98, 99]


def test_pieces_are_dealt_there_and_back_so_that_ranks_are_even():
    assert deal([5, 9, 1, 7, 3], ranks=2) == [[1, 4, 2], [3, 0]]
    assert deal([5, 9], ranks=1) == [[1, 0]]
    assert deal([4], ranks=3) == [[0], [], []]
    rng = random.Random(0)
    costs = [rng.randint(1, 1000) for _ in range(101)]
    hands = deal(costs, ranks=4)
    assert sorted(index for hand in hands for index in hand) == list(range(101))
    assert max(map(len, hands)) <= min(map(len, hands)) + 1
    loads = [sum(costs[index] for index in hand) for hand in hands]
    assert max(loads) < 1.1 * min(loads)


@pytest.mark.parametrize("packing", list(Packing))
def test_the_token_budget_counts_what_is_computed(packing):
    samples = [replace(s, token_ids=(*range(20), *s.token_ids)) for s in toy_samples(9)]
    samples = [replace(s, mask=(False,) * 20 + s.mask, logprobs=(0.0,) * 20 + s.logprobs) for s in samples]
    batches = micro_batches(samples, token_budget=90, normalisation=Normalisation.SAMPLE_MEAN, packing=packing)
    assert sorted(index for batch in batches for index in batch.samples) == list(range(9))
    assert all(batch.tokens.input_ids.numel() <= 90 for batch in batches)


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
