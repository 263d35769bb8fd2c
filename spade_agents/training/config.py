"""Settings of the trainer: optimiser, loss and engine types; importing them loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

__all__ = [
    "DeepSpeedEngineConfig",
    "EngineConfig",
    "EngineSettings",
    "HeadKernel",
    "ImportanceExcess",
    "ImportanceLevel",
    "LoraConfig",
    "LossConfig",
    "Normalisation",
    "OptimizerConfig",
    "Packing",
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
    """Of an engine.

    `bf16` takes matrix products in bf16 and keeps weights, gradients and optimiser state in fp32, so that small steps
    add up. `bf16_weights` keeps all of them in bf16: half the memory, and a step below a weight's last bit is lost.
    """

    FP32 = "fp32"
    BF16 = "bf16"
    BF16_WEIGHTS = "bf16_weights"


class ImportanceLevel(StrEnum):
    """What an importance weight is a ratio of."""

    TOKEN = "token"  # noqa: S105
    SEQUENCE = "sequence"


class ImportanceExcess(StrEnum):
    """What becomes of an importance weight above its cap: the cap, or 0, which leaves the token or sequence out."""

    TRUNCATE = "truncate"
    MASK = "mask"


class Packing(StrEnum):
    """How samples become rows of a forward pass; the loss is the same.

    `shared` lays prefixes that samples share out once, `packed` lays samples end to end, `padded` gives each a row of
    its own: for models whose attention is not plain causal attention.
    """

    SHARED = "shared"
    PACKED = "packed"
    PADDED = "padded"


class HeadKernel(StrEnum):
    """What scores the trained tokens: torch chunk by chunk, liger-kernel's fused head, or `auto`, which takes liger on
    a GPU where it is installed and agrees with torch.
    """

    TORCH = "torch"
    LIGER = "liger"
    AUTO = "auto"


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
        importance_cap: upper bound of the weight π_old/π_rollout; inf for none.
        importance_level: whether that is each token's ratio, or the product over its sample's sampled tokens.
        importance_excess: what becomes of a weight above the cap.
        kl_coefficient: of the penalty to the reference (the model the engine was opened with); 0 keeps no reference.
        normalisation: mean over a sample's tokens, then over samples; or one mean over all tokens.
        replay_weight: of the supervised term, where replay samples are given.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    importance_cap: float = 2.0
    importance_level: ImportanceLevel = ImportanceLevel.TOKEN
    importance_excess: ImportanceExcess = ImportanceExcess.TRUNCATE
    kl_coefficient: float = 0.0
    normalisation: Normalisation = Normalisation.SAMPLE_MEAN
    replay_weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.importance_cap > 0.0:
            raise ValueError(f"found importance_cap = {self.importance_cap}; wanted above 0, or inf for no cap")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters (arXiv 2106.09685): W + alpha/rank · B·A, with W frozen.

    Attributes:
        rank: of B·A.
        alpha: its scale, times the rank.
        targets: last parts of the names of the layers that get one; all linear layers but the head where empty.
        seed: of A; B is 0 at first.
    """

    rank: int = 16
    alpha: float = 32.0
    targets: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0.0:
            raise ValueError(
                f"found rank = {self.rank} and alpha = {self.alpha}; wanted a rank of 1 or more, alpha above 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What all engines share.

    Attributes:
        updates_per_rollout: optimiser steps one update takes, over equal shares of its samples.
        epochs: how often an update goes through its samples.
        token_budget: tokens in one micro-batch, padding included; memory and speed, not results, depend on it.
        packing: of samples into micro-batches.
        head_kernel: what scores tokens; `liger` needs a GPU and the extra `liger`, and takes no ZeRO-3.
        gradient_checkpointing: keep each layer's input alone and compute the rest again for the backward pass: less
            memory, a third more time, the same gradient.
        lora: train adapters instead of the weights.
        threads: of torch while the engine works; `None` leaves the process's own number.
        device: as torch names it.
    """

    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    precision: Precision = Precision.FP32
    updates_per_rollout: int = 1
    epochs: int = 1
    token_budget: int = 4096
    packing: Packing = Packing.SHARED
    head_kernel: HeadKernel = HeadKernel.TORCH
    gradient_checkpointing: bool = False
    lora: LoraConfig | None = None
    threads: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("updates_per_rollout", "epochs", "token_budget", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"found {name} = {value}; wanted at least 1")
        if self.head_kernel is HeadKernel.LIGER and not self.device.startswith("cuda"):
            raise ValueError(f"found head_kernel = liger on device = {self.device}; its kernels want device = cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchEngineConfig(EngineSettings):
    """Plain torch in this process: the reference the other engines are held to."""

    type: Literal["torch"] = "torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedEngineConfig(EngineSettings):
    """DeepSpeed ZeRO, on one process or, under a launcher, data-parallel on several.

    Attributes:
        zero_stage: 0 (nothing), 1 (optimiser state), 2 (gradients too) or 3 (weights too) split over the processes.
        offload: `optimizer` keeps the optimiser's state in the host's memory, `all` the weights too; results are the
            same.
        zero: more keys of DeepSpeed's table `zero_optimization`, such as `reduce_bucket_size`.
    """

    type: Literal["deepspeed"] = "deepspeed"
    zero_stage: Literal[0, 1, 2, 3] = 2
    offload: Literal["none", "optimizer", "all"] = "none"
    zero: Mapping[str, int | float | bool | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        EngineSettings.__post_init__(self)
        if self.precision is Precision.BF16_WEIGHTS:
            raise ValueError(
                "found precision = bf16_weights; the deepspeed engine keeps fp32 masters: wanted fp32 or bf16"
            )
        if self.head_kernel is HeadKernel.LIGER and self.zero_stage == 3:
            raise ValueError(
                "found head_kernel = liger at zero_stage = 3, which splits the head; wanted stage 0, 1 or 2"
            )
        if self.zero_stage not in (0, 1, 2, 3):
            raise ValueError(f"found zero_stage = {self.zero_stage}; wanted 0, 1, 2 or 3")
        decided = {"stage", "offload_optimizer", "offload_param"} & self.zero.keys()
        if decided:
            raise ValueError(f"found {', '.join(sorted(decided))} in zero; set zero_stage and offload instead")
        least = {"none": 0, "optimizer": 1, "all": 3}[self.offload]
        if self.zero_stage < least:
            raise ValueError(
                f"found offload = {self.offload} at zero_stage = {self.zero_stage}; wanted {least} or above"
            )


EngineConfig: TypeAlias = TorchEngineConfig | DeepSpeedEngineConfig
