"""One update: samples into micro-batches, forward, loss, backward, optimiser step; the same for every engine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from spade_agents.errors import PolicyError
from spade_agents.training.batch import (
    MicroBatch,
    collate,
    deal,
    fill_batches,
    kept_samples,
    micro_batches,
    trained_tokens,
)
from spade_agents.training.config import EngineSettings, LossConfig, Packing
from spade_agents.training.loss import policy_loss
from spade_agents.training.metrics import TokenStats, UpdateMetrics, summary, total
from spade_agents.training.samples import SupervisedSample
from spade_agents.training.supervised import SupervisedBatch, supervised_batches, supervised_loss
from spade_agents.trajectory import TrainingSample

__all__ = ["Backend", "run_update", "sample_logprobs", "using_threads"]

T = TypeVar("T")
Work = MicroBatch | SupervisedBatch


class Backend(Protocol):
    """What an engine adds to an update: where it runs, and how gradients are taken and applied."""

    @property
    def rank(self) -> int: ...

    @property
    def ranks(self) -> int: ...

    @property
    def forward(self) -> Callable[..., Tensor]: ...

    @property
    def in_step(self) -> bool:
        """Whether all ranks must make the same passes in the same order, because each holds a part of every layer."""
        ...

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add a loss's gradient to the step's sum over all ranks; `last` of this rank's micro-batches or not."""
        ...

    def apply(self) -> float:
        """Clip, step, forget the gradient; the norm before clipping."""
        ...

    def gather(self, value: T) -> list[T]:
        """The value of each rank, on all ranks."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """One optimiser step's work for this rank, and π_old of its policy micro-batches where it must be remembered."""

    work: list[Work]
    old: list[Tensor | None]


def run_update(
    backend: Backend,
    samples: Sequence[TrainingSample],
    replay: Sequence[SupervisedSample],
    *,
    config: EngineSettings,
    reference: Callable[..., Tensor] | None,
    step: int,
) -> UpdateMetrics:
    """Take `epochs · updates_per_rollout` optimiser steps, fewer where shares carry no gradient.

    Every rank passes the same samples and works through its own part of the micro-batches.

    Args:
        backend: the engine.
        samples: of both roles; those of advantage 0 are dropped before the forward pass, and the loss is normalised by
            the samples kept.
        replay: supervised samples, a second term weighted by `replay_weight`.
        config: settings.
        reference: the frozen reference, where the KL coefficient is above 0.
        step: the engine's step after this update.

    Raises:
        PolicyError: the loss is not finite; the weights are those of before the step.
    """
    started = time.monotonic()
    shares, kept = _shares(backend, samples, replay, config)
    if config.epochs * len(shares) > 1:
        shares = [_with_old(backend, share, config.device) for share in shares]
    stats: list[TokenStats] = []
    norms: list[float] = []
    for _ in range(config.epochs):
        for share in shares:
            stats.append(_accumulate(backend, share, config, reference))
            norms.append(_checked_apply(backend, stats[-1]))
    merged = total([row for rows in backend.gather(stats) for row in rows])
    return summary(
        merged,
        step=step,
        norms=norms,
        kl_coefficient=config.loss.kl_coefficient,
        replay_weight=config.loss.replay_weight,
        kept=kept,
        dropped=len(samples) - kept,
        seconds=time.monotonic() - started,
    )


def _shares(
    backend: Backend, samples: Sequence[TrainingSample], replay: Sequence[SupervisedSample], config: EngineSettings
) -> tuple[list[_Share], int]:
    """The steps that carry a gradient, and how many samples are kept; every share sees all groups and both roles."""
    kept = kept_samples(samples)
    shares: list[_Share] = []
    for index in range(config.updates_per_rollout):
        chosen, imitated = kept[index :: config.updates_per_rollout], replay[index :: config.updates_per_rollout]
        work: list[Work] = [
            *micro_batches(
                chosen,
                token_budget=config.token_budget,
                normalisation=config.loss.normalisation,
                packing=config.packing,
            ),
            *supervised_batches(imitated, token_budget=config.token_budget, packing=config.packing),
        ]
        if work:
            mine = _part(work, rank=backend.rank, ranks=backend.ranks)
            shares.append(_Share(work=mine, old=[None] * len(mine)))
    return shares, len(kept)


def _part(work: list[Work], *, rank: int, ranks: int) -> list[Work]:
    """This rank's pieces; filled up with empty ones, because all ranks must reduce gradients equally often."""
    hands = deal([piece.tokens.input_ids.numel() for piece in work], ranks=ranks)
    mine = [work[index] for index in hands[rank]]
    empty = SupervisedBatch(tokens=collate([SupervisedSample(token_ids=(0, 0), mask=(False, True))]), weight=0.0)
    return mine + [empty] * (max(map(len, hands)) - len(mine))


def _with_old(backend: Backend, share: _Share, device: str) -> _Share:
    """π_old before the first of several steps."""
    old: list[Tensor | None] = []
    for piece in share.work:
        is_policy = isinstance(piece, MicroBatch)
        with torch.no_grad():
            scores = backend.forward(*piece.tokens.to(device)) if is_policy or backend.in_step else None
        old.append(scores if is_policy else None)
    return _Share(work=share.work, old=old)


def _accumulate(
    backend: Backend, share: _Share, config: EngineSettings, reference: Callable[..., Tensor] | None
) -> TokenStats:
    stats: list[TokenStats] = []
    for index, (piece, old) in enumerate(zip(share.work, share.old, strict=True)):
        if isinstance(piece, SupervisedBatch):
            if backend.in_step and reference is not None:
                with torch.no_grad():
                    reference(*piece.tokens.to(config.device))
            loss = supervised_loss(backend.forward, piece.to(config.device))
            stats.append(TokenStats(replay_loss=loss.item(), replay_tokens=piece.targets if piece.weight else 0))
            loss = loss * config.loss.replay_weight
        else:
            loss, row = _policy(backend, piece.to(config.device), old, config.loss, reference)
            stats.append(row)
        backend.backward(loss, last=index == len(share.work) - 1)
    return total(stats)


def _policy(
    backend: Backend, batch: MicroBatch, old: Tensor | None, config: LossConfig, reference: Callable[..., Tensor] | None
) -> tuple[Tensor, TokenStats]:
    anchor: Tensor | None = None
    if reference is not None:
        # First, since it may be the same model with its adapters switched off.
        with torch.no_grad():
            anchor = reference(*batch.tokens)
    logprobs = backend.forward(*batch.tokens)
    # With one step the trainer's weights are those of π_old, so its log-probabilities are at hand.
    return policy_loss(logprobs, batch, config, old=logprobs if old is None else old, reference=anchor)


def _checked_apply(backend: Backend, stats: TokenStats) -> float:
    losses = backend.gather(stats.policy_loss + stats.kl + stats.replay_loss)
    if not all(math.isfinite(loss) for loss in losses):
        raise PolicyError(
            f"the loss of this update is not finite ({losses}); the weights were left as they were: resume from the "
            "last checkpoint with a lower learning rate"
        )
    return backend.apply()


def sample_logprobs(
    forward: Callable[..., Tensor],
    samples: Sequence[TrainingSample],
    *,
    token_budget: int,
    packing: Packing,
    device: str,
) -> tuple[tuple[float, ...], ...]:
    """Log-probabilities of the sampled tokens at their temperatures, 0.0 elsewhere: aligned with `token_ids`."""
    scored = [[0.0] * len(sample.token_ids) for sample in samples]
    chosen = [index for index, sample in enumerate(samples) if any(sample.mask)]
    kept = [samples[index] for index in chosen]
    heats = [sample.temperature for sample in kept]
    with torch.no_grad():
        for rows, tokens in fill_batches(kept, token_budget=token_budget, packing=packing, temperatures=heats):
            values = iter(forward(*tokens.to(device)).tolist())
            for row in rows:
                for token in trained_tokens(kept[row]):
                    scored[chosen[row]][token] = next(values)
    return tuple(tuple(row) for row in scored)


@contextmanager
def using_threads(threads: int | None) -> Iterator[Any]:
    """Torch's threads for a while; `None` leaves them."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
