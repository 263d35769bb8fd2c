"""Weights as arrays, which cross from process to process on one machine without a copy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["from_arrays", "to_arrays"]


def to_arrays(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """The same numbers, over the same memory; tensors lie on the CPU, in a format that numpy has, such as fp32."""
    return {name: tensor.numpy() for name, tensor in state.items()}


def from_arrays(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors over the arrays' memory: only to be read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
