"""The plain torch engine: the reference the others are held to."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from spade_agents.errors import CheckpointError, UsageError
from spade_agents.training.config import EngineSettings, TorchEngineConfig
from spade_agents.training.folder import export_model, full_precision, load_model, make_optimizer, prepare_model
from spade_agents.training.forward import TrainableForward
from spade_agents.training.liger import chosen_scores
from spade_agents.training.lora import BaseModel
from spade_agents.training.metrics import UpdateMetrics
from spade_agents.training.samples import SupervisedSample
from spade_agents.training.schedule import set_learning_rate
from spade_agents.training.update import run_update, sample_logprobs, using_threads
from spade_agents.trajectory import TrainingSample

__all__ = ["TorchEngine", "open_reference", "read_state", "trainable"]

T = TypeVar("T")
_FILE = "engine.pt"


class TorchEngine:
    """A model, AdamW and nothing else, in this process.

    Args:
        model: a transformers causal language model, from now on the engine's own.
        config: settings.
        source: the folder it came from, whose tokenizer files travel with `export`.
    """

    rank = 0
    ranks = 1
    in_step = False

    def __init__(self, model: Any, config: TorchEngineConfig, *, source: Path | None = None) -> None:
        self.config = config
        self._model = prepare_model(model, config)
        self._source = source
        self._forward = trainable(self._model, config)
        self._reference = open_reference(self._forward, config)
        self._optimizer = make_optimizer(self._model, config.optimizer)
        self._step = 0

    @classmethod
    def open(cls, config: TorchEngineConfig, folder: Path) -> TorchEngine:
        """See `open_engine`."""
        return cls(load_model(folder), config, source=folder)

    @property
    def step(self) -> int:
        return self._step

    @property
    def forward(self) -> nn.Module:
        """The forward pass of an update."""
        return self._forward

    def update(self, samples: Sequence[TrainingSample], *, replay: Sequence[SupervisedSample] = ()) -> UpdateMetrics:
        self._optimizer.zero_grad()
        set_learning_rate(self._optimizer, self.config.optimizer, self._step)
        with using_threads(self.config.threads):
            metrics = run_update(
                self, samples, replay, config=self.config, reference=self._reference, step=self._step + 1
            )
        self._step += 1
        return metrics

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add to the gradient; see `Backend`."""
        del last
        loss.backward()  # type: ignore[no-untyped-call]

    def apply(self) -> float:
        """Clip and step; see `Backend`."""
        norm = nn.utils.clip_grad_norm_(self._model.parameters(), self.config.optimizer.gradient_clip)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return float(norm)

    def gather(self, value: T) -> list[T]:
        """One rank's values; see `Backend`."""
        return [value]

    def logprobs(self, samples: Sequence[TrainingSample]) -> tuple[tuple[float, ...], ...]:
        with using_threads(self.config.threads):
            return sample_logprobs(
                self._forward,
                samples,
                token_budget=self.config.token_budget,
                packing=self.config.packing,
                device=self.config.device,
            )

    def state_dict(self) -> Mapping[str, Tensor]:
        return full_precision(self._model)

    def export(self, folder: Path) -> None:
        export_model(self._model, folder, source=self._source)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        reference = self._reference.state_dict() if isinstance(self._reference, nn.Module) else None
        state = {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "reference": reference,
            "step": self._step,
        }
        torch.save(state, folder / _FILE)

    def load(self, folder: Path) -> None:
        state = read_state(folder / _FILE)
        try:
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            if isinstance(self._reference, nn.Module):
                self._reference.load_state_dict(state["reference"])
            self._step = int(state["step"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(f"{folder / _FILE} is not of this model and these settings: {error}") from error

    def follow(self) -> None:
        raise UsageError("a torch engine has one process and nobody to follow; use the deepspeed engine for several")

    def close(self) -> None:
        """Nothing to let go."""


def trainable(model: Any, config: EngineSettings) -> TrainableForward:
    """The forward pass that an engine's settings ask for."""
    return TrainableForward(
        model,
        config.precision,
        packing=config.packing,
        gradient_checkpointing=config.gradient_checkpointing,
        scores=chosen_scores(config),
    )


def open_reference(forward: TrainableForward, config: EngineSettings) -> TrainableForward | BaseModel | None:
    """What the KL penalty compares with: nothing at coefficient 0, the frozen weights under LoRA, else a copy."""
    if not config.loss.kl_coefficient > 0.0:
        return None
    return BaseModel(forward) if config.lora is not None else copy.deepcopy(forward).requires_grad_(requires_grad=False)


def read_state(path: Path) -> dict[str, Any]:
    """A file that `torch.save` wrote, tensors and plain values only.

    Raises:
        CheckpointError: missing or unreadable.
    """
    if not path.is_file():
        raise CheckpointError(f"found no {path.name} in {path.parent}; give a folder that the engine saved")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # Corrupt bytes make the unpickler raise nearly anything.
        raise CheckpointError(f"{path} is corrupt ({error}); resume from an earlier checkpoint") from error
    return state
