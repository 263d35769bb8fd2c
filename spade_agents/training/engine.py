"""What every training engine is, and how one is opened; importing this loads no torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from spade_agents.training.config import DeepSpeedEngineConfig, EngineConfig
from spade_agents.training.metrics import UpdateMetrics
from spade_agents.training.samples import SupervisedSample
from spade_agents.trajectory import TrainingSample

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TrainingEngine", "open_engine"]


class TrainingEngine(Protocol):
    """Weights and their optimiser."""

    @property
    def step(self) -> int:
        """Updates done since the engine was first opened, kept across `save` and `load`."""
        ...

    @property
    def rank(self) -> int:
        """0 for the process that drives; the others only `follow`."""
        ...

    def update(self, samples: Sequence[TrainingSample], *, replay: Sequence[SupervisedSample] = ()) -> UpdateMetrics:
        """One update on the union of both roles' samples; `step` grows by 1 even where nothing carried a gradient.

        Raises:
            PolicyError: the loss is not finite; `load` a checkpoint before going on.
            ValueError: a malformed sample.
        """
        ...

    def logprobs(self, samples: Sequence[TrainingSample]) -> tuple[tuple[float, ...], ...]:
        """The trainer's log-probabilities of sampled tokens at their temperatures, 0.0 elsewhere; as `logprobs` of a
        sample.
        """
        ...

    def state_dict(self) -> Mapping[str, Tensor]:
        """Weights by their Hugging Face names, fp32 on the CPU, copies."""
        ...

    def export(self, folder: Path) -> None:
        """Write a plain Hugging Face folder, with the tokenizer files of the folder the engine was opened from."""
        ...

    def save(self, folder: Path) -> None:
        """Write weights, optimiser state, reference and step; after `load` the next update is the same to the bit."""
        ...

    def load(self, folder: Path) -> None:
        """Take up what `save` wrote.

        Raises:
            CheckpointError: nothing there, unreadable, or of another engine, model or number of processes.
        """
        ...

    def follow(self) -> None:
        """On ranks above 0: do what rank 0 does until it closes, whatever Ctrl-C says; on rank 0 a `UsageError`."""
        ...

    def close(self) -> None:
        """On rank 0: let the followers go; twice, on other ranks, or without followers it does nothing."""
        ...


def open_engine(config: EngineConfig, folder: Path) -> TrainingEngine:
    """Open an engine on a Hugging Face folder; its weights are also the reference of the KL penalty.

    Args:
        config: which engine, and its settings.
        folder: with `config.json` and weights.

    Raises:
        UsageError: no such folder, or no model in it.
    """
    logging.getLogger("DeepSpeed").addFilter(_is_news)
    if isinstance(config, DeepSpeedEngineConfig):
        from spade_agents.training.deepspeed_engine import DeepSpeedEngine

        return DeepSpeedEngine.open(config, folder)
    from spade_agents.training.torch_engine import TorchEngine

    return TorchEngine.open(config, folder)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of DeepSpeed's is worth printing: that it takes the CPU, it says whenever it is imported."""
    return "Setting accelerator to CPU" not in record.getMessage()
