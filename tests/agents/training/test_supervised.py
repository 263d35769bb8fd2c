"""Supervised batches and their loss."""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn.functional import cross_entropy

from spade_agents.training.supervised import (
    SupervisedSample,
    TrainableForward,
    shuffled_batches,
    supervised_batches,
    supervised_loss,
)
from tests.agents.training.toy import VOCABULARY, toy_llama


def samples(count: int = 9) -> list[SupervisedSample]:
    rng = random.Random(3)
    made = []
    for _ in range(count):
        length = rng.randint(4, 25)
        tokens = tuple(rng.randrange(VOCABULARY) for _ in range(length))
        made.append(SupervisedSample(token_ids=tokens, mask=(False, *(rng.random() < 0.6 for _ in tokens[2:]), True)))
    return made


def library_loss(model, chosen: list[SupervisedSample]) -> float:
    """Mean cross-entropy over all targets, one row at a time, from full logits."""
    losses = []
    for sample in chosen:
        ids = torch.tensor([sample.token_ids])
        logits = model(input_ids=ids).logits[0, :-1]
        keep = torch.tensor(sample.mask[1:])
        losses.append(cross_entropy(logits, ids[0, 1:], reduction="none")[keep])
    return torch.cat(losses).mean().item()


def test_the_loss_over_all_batches_is_the_mean_cross_entropy_over_all_targets():
    chosen = samples()
    expected = library_loss(toy_llama(), chosen)
    forward = TrainableForward(toy_llama())
    batches = supervised_batches(chosen, token_budget=40)
    assert len(batches) > 2
    assert sum(supervised_loss(forward, batch).item() for batch in batches) == pytest.approx(expected, rel=1e-5)


def test_one_shuffled_pass_takes_every_target_once_and_the_rng_decides_the_order():
    chosen = samples(40)
    first, again, other = (
        list(shuffled_batches(chosen, token_budget=60, rng=random.Random(seed))) for seed in (1, 1, 2)
    )
    assert sum(batch.targets for batch in first) == sum(sum(sample.mask) for sample in chosen)
    same = [torch.equal(a.tokens.input_ids, b.tokens.input_ids) for a, b in zip(first, again, strict=True)]
    assert all(same)
    assert [b.targets for b in first] != [b.targets for b in other]


def test_supervised_training_lowers_the_loss():
    forward, chosen = TrainableForward(toy_llama()), samples(4)
    optimizer = torch.optim.AdamW(forward.parameters(), lr=0.01)
    (batch,) = supervised_batches(chosen, token_budget=1000)
    before = supervised_loss(forward, batch).item()
    for _ in range(20):
        optimizer.zero_grad()
        supervised_loss(forward, batch).backward()
        optimizer.step()
    assert supervised_loss(forward, batch).item() < before - 1.0


def test_a_sample_whose_first_token_is_a_target_is_refused():
    with pytest.raises(ValueError, match="nothing comes before it"):
        supervised_batches([SupervisedSample(token_ids=(1, 2), mask=(True, True))], token_budget=10)
