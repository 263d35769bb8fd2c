"""Settings of the trainer: optimiser, loss and engine types; importing them loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

__all__ = [
    "DeepSpeedEngineConfig",
    "EngineConfig",
    "LossConfig",
    "Normalisation",
    "OptimizerConfig",
    "Precision",
    "TorchEngineConfig",
]


class Normalisation(StrEnum):
    """What one token of the loss is divided by."""

    SAMPLE_MEAN = "sample_mean"
    TOKEN_MEAN = "token_mean"  # noqa: S105


class Precision(StrEnum):
    """Of the forward and backward pass; weights, gradients and optimiser state are always fp32."""

    FP32 = "fp32"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """AdamW at a constant rate; matrices decay, vectors (norms, biases) do not."""

    learning_rate: float = 1e-6
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    gradient_clip: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """The clipped policy gradient.

    Attributes:
        clip_low, clip_high: the ratio π/π_old is clipped to [1 − low, 1 + high].
        importance_cap: upper bound of the per-token weight π_old/π_rollout.
        kl_coefficient: of the penalty to the reference (the model the engine was opened with); 0 keeps no reference.
        normalisation: mean over a sample's tokens, then over samples; or one mean over all tokens.
        replay_weight: of the supervised term, where replay samples are given.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    importance_cap: float = 2.0
    kl_coefficient: float = 0.0
    normalisation: Normalisation = Normalisation.SAMPLE_MEAN
    replay_weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchEngineConfig:
    """Plain torch in this process: the reference the other engines are held to.

    Attributes:
        updates_per_rollout: optimiser steps one update takes, over equal shares of its samples.
        epochs: how often an update goes through its samples.
        token_budget: padded tokens in one micro-batch; memory, not results, depends on it.
        threads: of torch while the engine works; `None` leaves the process's own number.
    """

    type: Literal["torch"] = "torch"
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    precision: Precision = Precision.FP32
    updates_per_rollout: int = 1
    epochs: int = 1
    token_budget: int = 8192
    threads: int | None = None
    device: str = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedEngineConfig:
    """DeepSpeed ZeRO, on one process or, under a launcher, data-parallel on several; the fields of the torch engine.

    Attributes:
        zero_stage: 0 to 2.
    """

    type: Literal["deepspeed"] = "deepspeed"
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    precision: Precision = Precision.FP32
    updates_per_rollout: int = 1
    epochs: int = 1
    token_budget: int = 8192
    threads: int | None = None
    device: str = "cpu"
    zero_stage: Literal[0, 1, 2] = 2


EngineConfig: TypeAlias = TorchEngineConfig | DeepSpeedEngineConfig
