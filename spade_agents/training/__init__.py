"""The trainer: advantages, the policy loss, and the engines that apply it."""

from __future__ import annotations

from spade_agents.training.advantages import agent_samples, group_advantages
from spade_agents.training.config import (
    DeepSpeedEngineConfig,
    EngineConfig,
    ImportanceExcess,
    ImportanceLevel,
    LoraConfig,
    LossConfig,
    Normalisation,
    OptimizerConfig,
    Packing,
    Precision,
    TorchEngineConfig,
)
from spade_agents.training.engine import TrainingEngine, open_engine
from spade_agents.training.metrics import UpdateMetrics
from spade_agents.training.samples import SupervisedSample

__all__ = [
    "DeepSpeedEngineConfig",
    "EngineConfig",
    "ImportanceExcess",
    "ImportanceLevel",
    "LoraConfig",
    "LossConfig",
    "Normalisation",
    "OptimizerConfig",
    "Packing",
    "Precision",
    "SupervisedSample",
    "TorchEngineConfig",
    "TrainingEngine",
    "UpdateMetrics",
    "agent_samples",
    "group_advantages",
    "open_engine",
]
