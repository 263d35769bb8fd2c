"""Weights that ZeRO-3 has split over the processes: loading them split, and putting them together again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spade_agents.errors import CheckpointError
from spade_agents.training.folder import load_model
from spade_agents.training.lora import merged_state

__all__ = ["load_parts", "load_split", "save_parts", "split", "whole_state"]


def load_split(folder: Path, settings: Mapping[str, Any]) -> Any:
    """A model whose weights are split while they are read, so that no process ever holds all of them.

    Args:
        folder: as of `load_model`.
        settings: DeepSpeed's, of stage 3; the process group is there already.
    """
    from transformers.integrations import HfDeepSpeedConfig

    kept = HfDeepSpeedConfig(dict(settings))  # transformers looks for it while it is alive
    model = load_model(folder)
    del kept
    return model


def split(model: nn.Module) -> bool:
    """Whether a model's weights are split."""
    return any(hasattr(parameter, "ds_id") for parameter in model.parameters())


def whole_state(model: nn.Module, *, keep: bool) -> dict[str, Tensor]:
    """All weights in fp32 on the CPU, adapters merged in, by the model's own names; one layer is whole at a time.

    Args:
        model: whose every process calls this.
        keep: whether this process wants the weights; the others give their parts and get nothing.
    """
    state: dict[str, Tensor] = {}
    for prefix, layer in _layers(model):
        with _gathered(layer):
            if keep:
                found = {f"{prefix}{name}": value for name, value in _own_state(layer).items()}
                state |= {name: value.detach().to("cpu", torch.float32, copy=True) for name, value in found.items()}
    return {name: state[name] for name in _names(model)} if keep else {}


def save_parts(model: nn.Module, path: Path) -> None:
    """Write this process's parts."""
    # Copies: DeepSpeed hangs things of its own kinds on its tensors.
    torch.save({name: value.ds_tensor.detach().clone() for name, value in _parts(model)}, path)


def load_parts(model: nn.Module, path: Path) -> None:
    """Take up what `save_parts` wrote.

    Raises:
        CheckpointError: missing, unreadable, or of other parts.
    """
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        for name, value in _parts(model):
            value.ds_tensor.data.copy_(saved[name])
    except Exception as error:  # Corrupt bytes make the unpickler raise nearly anything.
        raise CheckpointError(f"{path} is corrupt ({error}); resume from an earlier checkpoint") from error


def _parts(model: nn.Module) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in model.named_parameters() if hasattr(value, "ds_tensor"))


def _layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that together hold every weight: those with weights of their own, adapted layers as a whole."""
    inside: set[nn.Module] = set()
    for name, module in model.named_modules():
        if module in inside:
            continue
        if _is_adapted(module):
            inside.update(module.modules())
        if _is_adapted(module) or _own(module):
            yield (f"{name}." if name else ""), module


def _is_adapted(module: nn.Module) -> bool:
    return hasattr(module, "get_delta_weight")


def _own(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}


def _own_state(layer: nn.Module) -> Mapping[str, Tensor]:
    """A layer's weights while it is whole; an adapted one's with its adapter added in."""
    if not _is_adapted(layer):
        return _own(layer)
    named = merged_state(nn.ModuleDict({"layer": layer}))
    return {name.removeprefix("layer."): value for name, value in named.items()}


def _names(model: nn.Module) -> list[str]:
    """The names that the merged model's weights have, in its order."""
    return [name.replace(".base_layer.", ".") for name in model.state_dict() if ".lora_" not in name]


@contextmanager
def _gathered(layer: nn.Module) -> Iterator[None]:
    import deepspeed

    every = layer.parameters(recurse=_is_adapted(layer))
    with deepspeed.zero.GatheredParameters([parameter for parameter in every if hasattr(parameter, "ds_id")]):
        yield
