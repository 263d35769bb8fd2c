"""LoRA: small trained matrices beside frozen ones, and the merged weights under the model's own names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from spade_agents.errors import UsageError
from spade_agents.training.config import LoraConfig

__all__ = ["BaseModel", "add_lora", "has_lora", "merged_state", "without_lora"]

_ADAPTER = "default"


def add_lora(model: nn.Module, config: LoraConfig) -> None:
    """Freeze a model and put fp32 adapters beside its linear layers, the head excepted; they begin as no change at all.

    Raises:
        UsageError: no layer of the model has one of the names given.
    """
    from peft import LoraConfig as Adapter
    from peft import inject_adapter_in_model

    targets: str | list[str] = list(config.targets) if config.targets else "all-linear"
    adapter = Adapter(r=config.rank, lora_alpha=config.alpha, target_modules=targets, lora_dropout=0.0, bias="none")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            inject_adapter_in_model(adapter, model, adapter_name=_ADAPTER)
        except ValueError as error:
            raise UsageError(f"found lora.targets = {list(config.targets)}, which this model lacks: {error}") from error
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def has_lora(model: nn.Module) -> bool:
    """Whether `add_lora` was here."""
    return any(True for _ in _layers(model))


@contextmanager
def without_lora(model: nn.Module) -> Iterator[None]:
    """The frozen model alone, for a while; take no gradient inside."""
    layers = [layer for _, layer in _layers(model)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def merged_state(model: nn.Module) -> Mapping[str, Tensor]:
    """Weights with the adapters added in, by the names of the model without them; those that no adapter changes are
    the model's own tensors.
    """
    changes = {f"{name}.base_layer.weight": layer.get_delta_weight(_ADAPTER) for name, layer in _layers(model)}
    return {
        name.replace(".base_layer.", "."): value + changes[name].to(value.device) if name in changes else value
        for name, value in model.state_dict().items()
        if ".lora_" not in name
    }


def _layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, module in model.named_modules():
        # Asked by what it has: importing peft takes seconds, and most runs do without.
        if hasattr(module, "get_delta_weight") and hasattr(module, "enable_adapters"):
            yield name, module


class BaseModel:
    """The frozen model as the reference: the trainer's own forward pass without its adapters, and no second copy."""

    def __init__(self, forward: nn.Module) -> None:
        self._forward = forward

    def __call__(self, *tokens: Any) -> Tensor:
        """As `TrainableForward.forward`."""
        with without_lora(self._forward):
            scores: Tensor = self._forward(*tokens)
        return scores
