"""The policy loss: clipped ratio, truncated importance weight, penalty to the reference."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from spade_agents.training.batch import MicroBatch
from spade_agents.training.config import LossConfig
from spade_agents.training.metrics import TokenStats

__all__ = ["PolicyLoss", "clipped_objective", "importance_weights", "low_variance_kl", "policy_loss"]


class PolicyLoss(NamedTuple):
    """One micro-batch's share of an optimiser step's loss, and what to report of it."""

    loss: Tensor
    stats: TokenStats


def clipped_objective(ratio: Tensor, advantages: Tensor, *, low: float, high: float) -> Tensor:
    """min(ρ·A, clip(ρ, 1 − low, 1 + high)·A) per token, ρ = π/π_old (arXiv 2608.19197 eq. 2).

    Args:
        ratio: π/π_old, shape (N,).
        advantages: shape (N,).
        low: ε_low.
        high: ε_high; larger than ε_low, so that unlikely tokens may rise further than they may fall.
    """
    return torch.minimum(ratio * advantages, ratio.clamp(1.0 - low, 1.0 + high) * advantages)


def importance_weights(old: Tensor, rollout: Tensor, *, cap: float) -> Tensor:
    """min(π_old/π_rollout, cap) per token, a constant: it carries what the ratio does not.

    π_old are the trainer's own log-probabilities at the start of the update, so that engine mismatch and the age of the
    designer's samples enter here and only here.
    """
    return (old - rollout).exp().clamp(max=cap).detach()


def low_variance_kl(logprobs: Tensor, reference: Tensor) -> Tensor:
    """exp(d) − d − 1 per token with d = log π_ref − log π_θ: an unbiased, never negative estimate of KL(π_θ, π_ref)."""
    difference = reference - logprobs
    return difference.exp() - difference - 1.0


def policy_loss(
    logprobs: Tensor, batch: MicroBatch, config: LossConfig, *, old: Tensor, reference: Tensor | None = None
) -> PolicyLoss:
    """−w·min(ρ·A, clip(ρ)·A) + β·KL, each token weighted by its share of the step.

    Args:
        logprobs: log π_θ of the trained tokens at their sampling temperatures, shape (N,), with gradient.
        batch: the micro-batch.
        config: clip bounds, importance cap, KL coefficient β.
        old: log π_old of the same tokens.
        reference: log π_ref; may be `None` only where β is 0.

    Raises:
        ValueError: β is above 0 and there is no reference.
    """
    old = old.detach()
    ratio = (logprobs - old).exp()
    weights = importance_weights(old, batch.rollout, cap=config.importance_cap)
    objective = clipped_objective(ratio, batch.advantages, low=config.clip_low, high=config.clip_high)
    policy = -(batch.weights * weights * objective).sum()
    kl = torch.zeros_like(policy)
    if config.kl_coefficient > 0.0:
        if reference is None:
            raise ValueError(f"kl_coefficient is {config.kl_coefficient} but no reference log-probabilities were given")
        kl = (batch.weights * low_variance_kl(logprobs, reference)).sum()
    loss = policy + config.kl_coefficient * kl if config.kl_coefficient > 0.0 else policy
    return PolicyLoss(loss, _stats(batch, logprobs.detach(), ratio.detach(), old, config, policy, kl))


def _stats(
    batch: MicroBatch, logprobs: Tensor, ratio: Tensor, old: Tensor, config: LossConfig, policy: Tensor, kl: Tensor
) -> TokenStats:
    mismatch = (old - batch.rollout).exp()
    used = mismatch.clamp(max=config.importance_cap)
    clipped = torch.where(batch.advantages > 0, ratio > 1.0 + config.clip_high, ratio < 1.0 - config.clip_low)
    return TokenStats(
        tokens=logprobs.numel(),
        policy_loss=policy.item(),
        kl=kl.item(),
        ratio_sum=ratio.sum().item(),
        ratio_max=ratio.max().item(),
        clipped=int(clipped.sum()),
        mismatch_sum=mismatch.sum().item(),
        mismatch_max=mismatch.max().item(),
        mismatch_kl=low_variance_kl(batch.rollout, old).sum().item(),
        truncated=int((mismatch > config.importance_cap).sum()),
        weight_sum=used.sum().item(),
        weight_square_sum=used.square().sum().item(),
        surprise=-logprobs.sum().item(),
    )
