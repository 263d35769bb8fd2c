"""Supervised training: batches of tokens to imitate, and their cross-entropy; the warm start and replay share it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from spade_agents.training.batch import collate, fill_batches, partition, trained_tokens
from spade_agents.training.config import Packing
from spade_agents.training.forward import Tokens, TrainableForward
from spade_agents.training.samples import SupervisedSample

__all__ = [
    "SupervisedBatch",
    "SupervisedSample",
    "TrainableForward",
    "shuffled_batches",
    "supervised_batches",
    "supervised_loss",
]

_POOL = 32
"""Batches among which lengths are sorted: little padding, and the order still random from pass to pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedBatch:
    """Rows to imitate.

    Attributes:
        tokens: see `Tokens`; temperature 1.
        weight: of each target in a sum over all batches of an optimiser step.
    """

    tokens: Tokens
    weight: float

    @property
    def targets(self) -> int:
        """How many tokens are imitated."""
        return self.tokens.targets.numel()

    def to(self, device: str) -> SupervisedBatch:
        """The same on another device."""
        return SupervisedBatch(tokens=self.tokens.to(device), weight=self.weight)


def supervised_batches(
    samples: Sequence[SupervisedSample], *, token_budget: int, packing: Packing = Packing.SHARED
) -> list[SupervisedBatch]:
    """All samples of one optimiser step; the summed losses are the mean cross-entropy over all targets."""
    kept = [sample for sample in samples if any(sample.mask)]
    total = sum(sum(sample.mask) for sample in kept)
    placed = fill_batches(kept, token_budget=token_budget, packing=packing)
    return [SupervisedBatch(tokens=one.tokens, weight=1.0 / total) for one in placed]


def shuffled_batches(
    samples: Sequence[SupervisedSample], *, token_budget: int, rng: random.Random
) -> Iterator[SupervisedBatch]:
    """One pass over the samples in random order, rows of similar length together, each batch an optimiser step.

    Args:
        samples: at least one trained token in each.
        token_budget: padded tokens in a batch.
        rng: decides the order alone; collation happens as the batches are taken.
    """
    lengths = [trained_tokens(sample)[-1] for sample in samples]
    order = list(range(len(samples)))
    rng.shuffle(order)
    groups: list[list[int]] = []
    start = 0
    while start < len(order):
        end, size = start, 0
        while end < len(order) and size < _POOL * token_budget:
            size += lengths[order[end]]
            end += 1
        pool = order[start:end]
        cut = partition([lengths[index] for index in pool], token_budget=token_budget)
        groups += [[pool[index] for index in group] for group in cut]
        start = end
    rng.shuffle(groups)
    for group in groups:
        tokens = collate([samples[index] for index in group])
        yield SupervisedBatch(tokens=tokens, weight=1.0 / tokens.targets.numel())


def supervised_loss(forward: Callable[..., Tensor], batch: SupervisedBatch) -> Tensor:
    """Cross-entropy of the batch's targets, summed with its weight: a scalar to call `backward` on.

    Args:
        forward: a `TrainableForward`, which decides the precision, or an engine around one.
        batch: from `shuffled_batches` (a mean by itself) or `supervised_batches` (a share of the step's mean).
    """
    return -forward(*batch.tokens).sum() * batch.weight
