"""The policy loss: clipped ratio, truncated importance weight, penalty to the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from spade_agents.training.batch import MicroBatch
from spade_agents.training.config import ImportanceExcess, ImportanceLevel, LossConfig
from spade_agents.training.metrics import TokenStats

__all__ = [
    "PolicyLoss",
    "bounded_weights",
    "clipped_objective",
    "importance_ratios",
    "low_variance_kl",
    "policy_loss",
]


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


def importance_ratios(old: Tensor, rollout: Tensor, rows: Tensor, *, level: ImportanceLevel) -> Tensor:
    """π_old/π_rollout per token, a constant: it carries what the clipped ratio does not.

    π_old are the trainer's own log-probabilities at the start of the update, so that engine mismatch and the age of the
    designer's samples enter here and only here. At the level of sequences each token has the product over its sample's
    sampled tokens, π_old(y|x)/π_rollout(y|x), which is what makes the expectation exact; per token the weight is biased
    and of lower variance.

    Args:
        old: log π_old, shape (N,).
        rollout: log π_rollout, shape (N,).
        rows: which sample a token belongs to, shape (N,).
        level: token or sequence.
    """
    difference = (old - rollout).detach()
    if level is ImportanceLevel.SEQUENCE:
        sums = difference.new_zeros(int(rows.max()) + 1 if len(rows) else 0).index_add_(0, rows, difference)
        difference = sums[rows]
    return difference.exp()


def bounded_weights(ratios: Tensor, *, cap: float, excess: ImportanceExcess) -> Tensor:
    """min(r, cap), or r where r ≤ cap and else 0: truncated or masked importance sampling."""
    if excess is ImportanceExcess.MASK:
        return torch.where(ratios > cap, 0.0, ratios)
    return ratios.clamp(max=cap)


def low_variance_kl(logprobs: Tensor, reference: Tensor) -> Tensor:
    """exp(d) − d − 1 per token with d = log π_ref − log π_θ: an unbiased, never negative estimate of KL(π_θ, π_ref)."""
    difference = reference - logprobs
    return difference.exp() - difference - 1.0


def policy_loss(
    logprobs: Tensor, batch: MicroBatch, config: LossConfig, *, old: Tensor, reference: Tensor | None = None
) -> PolicyLoss:
    """−w·min(ρ·A, clip(ρ)·A) + β·KL, each token weighted by its share of the step (arXiv 2608.19197 eq. 2).

    A role's weight is part of its advantages (`rewards.role_weight`).

    Args:
        logprobs: log π_θ of the trained tokens at their sampling temperatures, shape (N,), with gradient.
        batch: the micro-batch.
        config: clip bounds, importance weights, KL coefficient β.
        old: log π_old of the same tokens.
        reference: log π_ref; may be `None` only where β is 0.

    Raises:
        ValueError: β is above 0 and there is no reference.
    """
    old = old.detach()
    ratio = (logprobs - old).exp()
    importance = importance_ratios(old, batch.rollout, batch.rows, level=config.importance_level)
    weights = bounded_weights(importance, cap=config.importance_cap, excess=config.importance_excess)
    objective = clipped_objective(ratio, batch.advantages, low=config.clip_low, high=config.clip_high)
    policy = -(batch.weights * weights * objective).sum()
    kl = torch.zeros_like(policy)
    if config.kl_coefficient > 0.0:
        if reference is None:
            raise ValueError(f"kl_coefficient is {config.kl_coefficient} but no reference log-probabilities were given")
        kl = (batch.weights * low_variance_kl(logprobs, reference)).sum()
    loss = policy + config.kl_coefficient * kl if config.kl_coefficient > 0.0 else policy
    stats = _stats(batch, logprobs.detach(), old, importance, weights, config)
    return PolicyLoss(loss, replace(stats, policy_loss=policy.item(), kl=kl.item()))


def _stats(
    batch: MicroBatch, logprobs: Tensor, old: Tensor, importance: Tensor, weights: Tensor, config: LossConfig
) -> TokenStats:
    ratio = (logprobs - old).exp()
    clipped = torch.where(batch.advantages > 0, ratio > 1.0 + config.clip_high, ratio < 1.0 - config.clip_low)
    return TokenStats(
        tokens=logprobs.numel(),
        ratio_sum=ratio.sum().item(),
        ratio_max=ratio.max().item(),
        clipped=int(clipped.sum()),
        mismatch_sum=importance.sum().item(),
        mismatch_max=importance.max().item(),
        mismatch_kl=low_variance_kl(batch.rollout, old).sum().item(),
        truncated=int((importance > config.importance_cap).sum()),
        weight_sum=weights.sum().item(),
        weight_square_sum=weights.square().sum().item(),
        surprise=-logprobs.sum().item(),
    )
