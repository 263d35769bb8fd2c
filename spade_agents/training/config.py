"""Settings of the trainer: optimiser, loss and engine types; importing them loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

__all__ = [
    "DeepSpeedEngineConfig",
    "EngineConfig",
    "EngineSettings",
    "LossConfig",
    "Normalisation",
    "OptimizerConfig",
    "Precision",
    "RateDecay",
    "RateSchedule",
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


class RateDecay(StrEnum):
    """How the learning rate falls after its warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSchedule:
    """The learning rate over a run's updates; see `schedule.learning_rate`.

    Attributes:
        decay: after the warm-up.
        warmup: updates over which the rate rises.
        updates: at which the decay ends, warm-up included; not the run's length, so that a run can be lengthened.
        final: share of the full rate that is left then.
    """

    decay: RateDecay = RateDecay.CONSTANT
    warmup: int = 0
    updates: int = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0 or not 0.0 <= self.final <= 1.0:
            raise ValueError(f"found {self}; wanted warmup of 0 or more and final between 0 and 1")
        if self.decay is not RateDecay.CONSTANT and self.updates <= self.warmup:
            raise ValueError(f"found {self}; a {self.decay} decay wants updates above warmup, to end at")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """AdamW; matrices decay, vectors (norms, biases) do not."""

    learning_rate: float = 1e-6
    schedule: RateSchedule = field(default_factory=RateSchedule)
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
class EngineSettings:
    """What all engines share.

    Attributes:
        updates_per_rollout: optimiser steps one update takes, over equal shares of its samples.
        epochs: how often an update goes through its samples.
        token_budget: padded tokens in one micro-batch; memory and speed, not results, depend on it.
        threads: of torch while the engine works; `None` leaves the process's own number.
        device: as torch names it.
    """

    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    precision: Precision = Precision.FP32
    updates_per_rollout: int = 1
    epochs: int = 1
    token_budget: int = 4096
    threads: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("updates_per_rollout", "epochs", "token_budget", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"found {name} = {value}; wanted at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchEngineConfig(EngineSettings):
    """Plain torch in this process: the reference the other engines are held to."""

    type: Literal["torch"] = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedEngineConfig(EngineSettings):
    """DeepSpeed ZeRO, on one process or, under a launcher, data-parallel on several.

    Attributes:
        zero_stage: 0 (nothing), 1 (optimiser state) or 2 (gradients too) partitioned over the processes.
    """

    type: Literal["deepspeed"] = "deepspeed"
    zero_stage: Literal[0, 1, 2] = 2

    def __post_init__(self) -> None:
        EngineSettings.__post_init__(self)
        if self.zero_stage not in (0, 1, 2):
            raise ValueError(f"found zero_stage = {self.zero_stage}; wanted 0, 1 or 2: stage 3 splits the weights")


EngineConfig: TypeAlias = TorchEngineConfig | DeepSpeedEngineConfig
