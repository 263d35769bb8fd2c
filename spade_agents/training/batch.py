"""Training samples into micro-batches under a token budget: packed, or padded right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from spade_agents.training.config import Normalisation, Packing
from spade_agents.training.forward import Tokens
from spade_agents.training.packing import PackedRows, packs
from spade_agents.trajectory import TrainingSample

__all__ = [
    "MicroBatch",
    "Placed",
    "collate",
    "collate_packed",
    "deal",
    "fill_batches",
    "kept_samples",
    "micro_batches",
    "partition",
    "trained_tokens",
]


class Masked(Protocol):
    """Tokens and which of them are trained on."""

    @property
    def token_ids(self) -> tuple[int, ...]: ...

    @property
    def mask(self) -> tuple[bool, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """What one forward and backward pass takes; all but `tokens` and `samples` of shape (N,), N trained tokens.

    Attributes:
        tokens: see `Tokens`.
        rollout: log-probabilities under the weights that sampled.
        advantages: of the token's sample.
        weights: the token's share of the loss; over all micro-batches of an optimiser step they sum to 1.
        rows: which of `samples` the token belongs to.
        samples: where they stand in the sequence they came from.
    """

    tokens: Tokens
    rollout: Tensor
    advantages: Tensor
    weights: Tensor
    rows: Tensor
    samples: tuple[int, ...]

    def to(self, device: str) -> MicroBatch:
        """The same on another device."""
        return replace(
            self,
            tokens=self.tokens.to(device),
            rollout=self.rollout.to(device),
            advantages=self.advantages.to(device),
            weights=self.weights.to(device),
            rows=self.rows.to(device),
        )


class Placed(NamedTuple):
    """Samples of one micro-batch: where they stand in the sequence they came from, and their tokens in that order."""

    samples: tuple[int, ...]
    tokens: Tokens


def trained_tokens(sample: Masked) -> list[int]:
    """Where the trained tokens of a sample stand.

    Raises:
        ValueError: mask and tokens differ in length, or the first token, which nothing predicts, is to be trained.
    """
    if len(sample.mask) != len(sample.token_ids):
        raise ValueError(f"found {len(sample.mask)} mask values for {len(sample.token_ids)} tokens; give one for each")
    trained = [place for place, chosen in enumerate(sample.mask) if chosen]
    if trained and trained[0] == 0:
        raise ValueError("the first token is marked as trained, but nothing comes before it: put a prompt there")
    return trained


def kept_samples(samples: Sequence[TrainingSample]) -> list[TrainingSample]:
    """The samples that carry a policy gradient: advantage not 0, and something sampled."""
    return [sample for sample in samples if sample.advantage != 0.0 and any(sample.mask)]


def partition(lengths: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Indices grouped so that rows · longest ≤ budget, longest first; a longer row than the budget stands alone."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    groups: list[list[int]] = []
    for index in order:
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= token_budget:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def deal(costs: Sequence[int], *, ranks: int) -> list[list[int]]:
    """Indices for each rank, dearest first and there and back again: none has over one more than another, and all have
    about as much to do.
    """
    order = sorted(range(len(costs)), key=lambda index: (-costs[index], index))
    hands: list[list[int]] = [[] for _ in range(ranks)]
    for number, index in enumerate(order):
        turn, seat = divmod(number, ranks)
        hands[seat if turn % 2 == 0 else ranks - 1 - seat].append(index)
    return hands


def collate(samples: Sequence[Masked], temperatures: Sequence[float] | None = None) -> Tokens:
    """Rows padded right with token 0, each cut after its last trained token, whose own input nothing needs."""
    places = [trained_tokens(sample) for sample in samples]
    width = max((row[-1] for row in places if row), default=1)
    input_ids = torch.zeros(len(samples), width, dtype=torch.long)
    positions: list[int] = []
    targets: list[int] = []
    heats: list[float] = []
    for row, (sample, trained) in enumerate(zip(samples, places, strict=True)):
        length = trained[-1] if trained else 0
        input_ids[row, :length] = torch.tensor(sample.token_ids[:length], dtype=torch.long)
        positions += [row * width + place - 1 for place in trained]
        targets += [sample.token_ids[place] for place in trained]
        heats += [temperatures[row] if temperatures else 1.0] * len(trained)
    return Tokens(input_ids, torch.tensor(positions), torch.tensor(targets), torch.tensor(heats))


def collate_packed(samples: Sequence[Masked], packed: PackedRows, temperatures: Sequence[float] | None) -> Tokens:
    """One packed row, whose layout says which tokens see which.

    Args:
        samples: those that `packed.rows` counts in.
        packed: of their tokens, each cut after its last trained one.
        temperatures: one for each sample; 1 where there are none.
    """
    positions: list[int] = []
    targets: list[int] = []
    heats: list[float] = []
    for number, index in enumerate(packed.rows):
        trained, places = trained_tokens(samples[index]), packed.places(number)
        positions += [places[token - 1] for token in trained]
        targets += [samples[index].token_ids[token] for token in trained]
        heats += [temperatures[index] if temperatures else 1.0] * len(trained)
    return Tokens(
        torch.tensor([packed.token_ids]),
        torch.tensor(positions),
        torch.tensor(targets),
        torch.tensor(heats),
        torch.tensor([packed.position_ids]),
        packed.layout,
    )


def fill_batches(
    samples: Sequence[Masked],
    *,
    token_budget: int,
    packing: Packing,
    temperatures: Sequence[float] | None = None,
) -> list[Placed]:
    """All samples, each in one micro-batch.

    Args:
        samples: each with at least one trained token.
        token_budget: tokens of a micro-batch, padding included; a longer sample stands alone.
        packing: how they become rows.
        temperatures: one for each sample; 1 where there are none.
    """
    lengths = [trained_tokens(sample)[-1] for sample in samples]
    if packing is Packing.PADDED:
        return [
            Placed(
                tuple(group),
                collate([samples[i] for i in group], [temperatures[i] for i in group] if temperatures else None),
            )
            for group in partition(lengths, token_budget=token_budget)
        ]
    rows = [sample.token_ids[:length] for sample, length in zip(samples, lengths, strict=True)]
    packed = packs(rows, token_budget=token_budget, sharing=packing is Packing.SHARED)
    return [Placed(row.rows, collate_packed(samples, row, temperatures)) for row in packed]


def micro_batches(
    samples: Sequence[TrainingSample],
    *,
    token_budget: int,
    normalisation: Normalisation,
    packing: Packing = Packing.SHARED,
) -> list[MicroBatch]:
    """All samples of one optimiser step as micro-batches whose losses sum to the step's loss.

    Args:
        samples: kept ones, each with at least one trained token.
        token_budget: tokens a micro-batch may hold.
        normalisation: `sample_mean` weighs a token by 1/(its sample's tokens · samples), which inside a group is the
            1/G of arXiv 2608.19197 eq. 2; `token_mean` by 1/(all tokens).
        packing: how samples become rows.

    Raises:
        ValueError: a sample of temperature 0, or whose log-probabilities do not match its tokens.
    """
    counts = [len(trained_tokens(sample)) for sample in samples]
    for sample in samples:
        _check(sample)
    total = sum(counts)
    per_token = [
        1.0 / (count * len(samples)) if normalisation is Normalisation.SAMPLE_MEAN else 1.0 / total for count in counts
    ]
    heats = [sample.temperature for sample in samples]
    placed = fill_batches(samples, token_budget=token_budget, packing=packing, temperatures=heats)
    return [_micro_batch(samples, per_token, one) for one in placed]


def _micro_batch(samples: Sequence[TrainingSample], per_token: Sequence[float], placed: Placed) -> MicroBatch:
    rollout: list[float] = []
    advantages: list[float] = []
    weights: list[float] = []
    rows: list[int] = []
    for row, index in enumerate(placed.samples):
        sample = samples[index]
        trained = trained_tokens(sample)
        rollout += [sample.logprobs[token] for token in trained]
        advantages += [sample.advantage] * len(trained)
        weights += [per_token[index]] * len(trained)
        rows += [row] * len(trained)
    return MicroBatch(
        tokens=placed.tokens,
        rollout=torch.tensor(rollout),
        advantages=torch.tensor(advantages),
        weights=torch.tensor(weights),
        rows=torch.tensor(rows),
        samples=placed.samples,
    )


def _check(sample: TrainingSample) -> None:
    if sample.temperature <= 0:
        raise ValueError(f"found a sample drawn at temperature {sample.temperature}; train on sampled tokens (above 0)")
    if len(sample.logprobs) != len(sample.token_ids):
        raise ValueError(
            f"found {len(sample.logprobs)} log-probabilities for {len(sample.token_ids)} tokens; give one for each"
        )
