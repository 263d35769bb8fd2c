"""Models from and to Hugging Face folders, and the optimiser they are trained with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spade_agents.errors import UsageError
from spade_agents.training.config import EngineSettings, OptimizerConfig, Precision
from spade_agents.training.lora import add_lora, merged_state

__all__ = ["export_model", "full_precision", "load_model", "make_optimizer", "prepare_model"]

_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
_WRITTEN = frozenset({"config.json", "model.safetensors.index.json", "spade.json"})


def load_model(folder: Path) -> Any:
    """A causal language model in fp32.

    Raises:
        UsageError: no such folder, or no model in it.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as library_logging

    library_logging.disable_progress_bar()
    if not (folder / "config.json").is_file():
        raise UsageError(f"found no config.json in {folder}; give a Hugging Face model folder")
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{folder} does not load as a causal language model: {error}") from error
    return model.eval()


def prepare_model(model: Any, config: EngineSettings, *, narrow: bool = True) -> Any:
    """The model on its device, in evaluation mode, with the weights' precision and the adapters that are wanted.

    Args:
        model: from `load_model`; changed in place.
        config: precision, adapters and device.
        narrow: whether weights that adapters leave frozen may be bf16 where products are: they need no fp32 masters.
    """
    frozen = narrow and config.lora is not None and config.precision is Precision.BF16
    if frozen or config.precision is Precision.BF16_WEIGHTS:
        model.to(torch.bfloat16)
    if config.lora is not None:
        add_lora(model, config.lora)
    return model.to(config.device).eval()


def export_model(model: Any, folder: Path, *, source: Path | None, state: Mapping[str, Tensor] | None = None) -> None:
    """Write configuration and weights, adapters merged in, and beside them the tokenizer and template of `source`.

    Args:
        model: whose weights, unless `state` has them.
        folder: is made.
        source: may be `None`.
        state: all weights, where the model does not hold them whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, state_dict=dict(merged_state(model) if state is None else state))
    for path in sorted(source.iterdir()) if source and source.resolve() != folder.resolve() else ():
        if path.is_file() and path.suffix not in _WEIGHTS and path.name not in _WRITTEN:
            shutil.copyfile(path, folder / path.name)


def full_precision(model: nn.Module) -> Mapping[str, Tensor]:
    """Copies of all weights, adapters merged in, fp32 on the CPU, by the model's own names."""
    return {name: value.detach().to("cpu", torch.float32, copy=True) for name, value in merged_state(model).items()}


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW in two groups: matrices with weight decay, vectors without."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if _dimensions(parameter) >= 2]
    vectors = [parameter for parameter in trained if _dimensions(parameter) < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
    )


def _dimensions(parameter: nn.Parameter) -> int:
    """Of the whole parameter: one that ZeRO-3 has split lies flat."""
    return len(getattr(parameter, "ds_shape", parameter.shape))
