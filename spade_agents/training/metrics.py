"""What an update reports: sums over tokens that add across micro-batches and ranks, and the means made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

__all__ = ["TokenStats", "UpdateMetrics", "summary", "total"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStats:
    """Sums over trained tokens, and two maxima; the default is the sum of nothing.

    Attributes:
        policy_loss, kl, replay_loss: weighted sums, so their totals are the step's means.
        mismatch_kl: Σ exp(d) − d − 1 with d = log π_old − log π_rollout.
        surprise: Σ −log π of the sampled tokens.
    """

    tokens: int = 0
    policy_loss: float = 0.0
    kl: float = 0.0
    replay_loss: float = 0.0
    replay_tokens: int = 0
    ratio_sum: float = 0.0
    ratio_max: float = 0.0
    clipped: int = 0
    mismatch_sum: float = 0.0
    mismatch_max: float = 0.0
    mismatch_kl: float = 0.0
    truncated: int = 0
    weight_sum: float = 0.0
    weight_square_sum: float = 0.0
    surprise: float = 0.0


def total(stats: Iterable[TokenStats]) -> TokenStats:
    """Sums and maxima of several."""
    rows = list(stats)
    merged = {
        field.name: (max if field.name.endswith("_max") else sum)(getattr(row, field.name) for row in rows)
        for field in fields(TokenStats)
        if rows
    }
    return TokenStats(**merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetrics:
    """One update; a mean over tokens is `None` where no token was trained.

    Attributes:
        step: the engine's step after the update.
        optimizer_steps: 0 where nothing carried a gradient.
        loss: policy + coefficient · KL + replay, mean over the optimiser steps.
        kl: to the reference; 0 where none is kept.
        grad_norm: before clipping, mean over the optimiser steps.
        ratio_mean, ratio_max: of π/π_old.
        clipped_share: of trained tokens that the clip silences.
        mismatch_mean, mismatch_max: of π_old/π_rollout, before truncation.
        mismatch_kl: mean low-variance estimate of KL(π_rollout, π_old).
        truncated_share: of tokens whose importance weight met its cap.
        effective_sample_size: (Σw)²/(n·Σw²) of the truncated weights, in (0, 1].
        surprise: mean −log π of the sampled tokens, an estimate of the entropy at the sampling temperature.
        tokens: trained, replay not counted.
        kept, dropped: samples with and without an advantage.
        seconds: wall clock.
    """

    step: int
    optimizer_steps: int
    loss: float
    policy_loss: float
    kl: float
    replay_loss: float
    grad_norm: float
    ratio_mean: float | None
    ratio_max: float | None
    clipped_share: float | None
    mismatch_mean: float | None
    mismatch_max: float | None
    mismatch_kl: float | None
    truncated_share: float | None
    effective_sample_size: float | None
    surprise: float | None
    tokens: int
    replay_tokens: int
    kept: int
    dropped: int
    seconds: float

    def as_dict(self) -> dict[str, float | int | None]:
        """By name, for a metrics file."""
        return asdict(self)


def summary(
    stats: TokenStats,
    *,
    step: int,
    norms: list[float],
    kl_coefficient: float,
    replay_weight: float,
    kept: int,
    dropped: int,
    seconds: float,
) -> UpdateMetrics:
    """The report of one update from its summed statistics and the gradient norms of its optimiser steps."""
    steps = max(len(norms), 1)
    policy, kl, replay = (value / steps for value in (stats.policy_loss, stats.kl, stats.replay_loss))

    def per_token(value: float) -> float | None:
        return value / stats.tokens if stats.tokens else None

    squares = stats.tokens * stats.weight_square_sum
    return UpdateMetrics(
        step=step,
        optimizer_steps=len(norms),
        loss=policy + kl_coefficient * kl + replay_weight * replay,
        policy_loss=policy,
        kl=kl,
        replay_loss=replay,
        grad_norm=math.fsum(norms) / steps,
        ratio_mean=per_token(stats.ratio_sum),
        ratio_max=stats.ratio_max if stats.tokens else None,
        clipped_share=per_token(stats.clipped),
        mismatch_mean=per_token(stats.mismatch_sum),
        mismatch_max=stats.mismatch_max if stats.tokens else None,
        mismatch_kl=per_token(stats.mismatch_kl),
        truncated_share=per_token(stats.truncated),
        effective_sample_size=stats.weight_sum**2 / squares if squares else None,
        surprise=per_token(stats.surprise),
        tokens=stats.tokens,
        replay_tokens=stats.replay_tokens,
        kept=kept,
        dropped=dropped,
        seconds=seconds,
    )
