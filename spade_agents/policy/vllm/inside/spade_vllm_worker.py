"""A vLLM worker extension: takes weights from a file, and tells what it really multiplies by.

vLLM imports this file by itself, from an environment of its own, so it needs torch and safetensors alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["SpadeWorker", "TensorSum", "digest", "served_tensors"]

_UNIT_VECTORS = 512
"""How many columns of a packed matrix are read at once."""


class TensorSum(NamedTuple):
    """A tensor's shape, and the sha256 of its bytes."""

    shape: tuple[int, ...]
    sha256: str


def digest(tensor: Tensor, dtype: torch.dtype) -> TensorSum:
    """The checksum of a tensor in a number format, so that both sides of a sync hash the same bytes.

    Zeros of either sign, and numbers so small that some kernels take them for zero, count as zero.
    """
    plain = tensor.detach().to("cpu", dtype).contiguous()
    plain = plain.masked_fill(plain.abs() < torch.finfo(dtype).smallest_normal, 0.0)
    # numpy has no bfloat16: the bytes are hashed as they lie.
    data = plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b""
    return TensorSum(tuple(plain.shape), hashlib.sha256(data).hexdigest())


@torch.inference_mode()
def served_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a vLLM model samples with, by the names of its checkpoint.

    Fused matrices are taken apart. A matrix that the CPU build packed is read by multiplying unit vectors by it, which
    gives its numbers exactly: the packed copy is what counts, whatever stands in the parameter beside it.
    """
    fused: dict[str, list[str]] = getattr(model, "packed_modules_mapping", {})
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            yield from _of_checkpoint(f"{path}.{name}", _effective(module, name, parameter), module, fused)


class SpadeWorker:
    """What `/collective_rpc` can call in a worker; `self` is vLLM's worker, which this class is mixed into."""

    spade_version: int = 0

    def spade_load(self: Any, path: str, version: int) -> dict[str, Any]:
        """Load a safetensors file of all tensors by their checkpoint's names; a fault comes back as `error`."""
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            sizes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            empty = next((name for name, shape in sizes.items() if 0 in shape), None)
            if empty is not None:
                return {"error": f"the tensor {empty} has size zero, {sizes[empty]}"}
            reading = _Reading(file, list(sizes))
            try:
                self.reload_weights(weights_iterator=self.spade_stream(iter(reading)))
                self.spade_mend()
            except Exception as error:  # the boundary to the trainer, which stops with these words
                return {"error": f"{type(error).__name__} at the tensor {reading.last}: {error}"}
        self.spade_version = version
        return {"tensors": len(sizes)}

    def spade_stream(self, tensors: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """What is handed to vLLM of what the file holds: all of it."""
        return tensors

    def spade_mend(self: Any) -> None:
        """Pack a tied head anew: reloading packs the embedding alone and leaves the head's packed copy as it was."""
        head: Any = getattr(self.get_model(), "lm_head", None)
        if hasattr(head, "cpu_linear"):
            head.quant_method.process_weights_after_loading(head)

    def spade_about(self: Any) -> dict[str, Any]:
        """The version and number format of its weights."""
        return {"version": self.spade_version, "dtype": str(self.model_config.dtype).removeprefix("torch.")}

    def spade_arrival(self: Any) -> dict[str, Any]:
        """The version, number format and checksums of what this worker samples with."""
        ranks = int(self.parallel_config.tensor_parallel_size) * int(self.parallel_config.pipeline_parallel_size)
        if ranks > 1:
            return {"error": f"the model is split over {ranks} workers, and only a whole one can tell its checksums"}
        dtype = self.model_config.dtype
        sums = {name: digest(tensor, dtype) for name, tensor in served_tensors(self.get_model())}
        told = {name: [list(found.shape), found.sha256] for name, found in sums.items()}
        return {**self.spade_about(), "sums": told}


class _Reading:
    """A file's tensors one by one; `last` is the name of the newest."""

    def __init__(self, file: Any, names: list[str]) -> None:
        self.last = ""
        self._file, self._names = file, names

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        for name in self._names:
            self.last = name
            yield name, self._file.get_tensor(name)


def _effective(module: nn.Module, name: str, parameter: Tensor) -> Tensor:
    """A parameter as the layer uses it; an embedding looks up its own rows, a head multiplies by its packed copy."""
    looks_up = hasattr(module, "org_vocab_size") and "LMHead" not in type(module).__name__
    if name == "weight" and hasattr(module, "cpu_linear") and not looks_up:
        return _unpacked(module, parameter)
    return parameter


def _unpacked(module: Any, parameter: Tensor) -> Tensor:
    """The matrix (out, in) behind `cpu_linear`; the parameter itself may have been emptied."""
    width = parameter.shape[1] if parameter.ndim == 2 else _width(module)
    columns = []
    for start in range(0, width, _UNIT_VECTORS):
        count = min(_UNIT_VECTORS, width - start)
        unit = torch.zeros(count, width, dtype=parameter.dtype)
        unit[torch.arange(count), start + torch.arange(count)] = 1.0
        columns.append(module.cpu_linear(unit, parameter, None))
    return torch.cat(columns).t()


def _width(module: Any) -> int:
    found = getattr(module, "input_size_per_partition", None) or module.input_size
    return int(found)


def _of_checkpoint(
    path: str, tensor: Tensor, module: nn.Module, fused: dict[str, list[str]]
) -> Iterator[tuple[str, Tensor]]:
    """A tensor under the checkpoint's name, or the parts of a fused one under theirs; padding is left out."""
    *above, leaf, name = path.split(".")
    parts, sizes = fused.get(leaf), getattr(module, "output_sizes", None)
    if parts and sizes:
        for part, rows in zip(parts, torch.split(tensor, list(sizes)), strict=True):
            yield ".".join([*above, part, name]), rows
        return
    vocabulary = getattr(module, "org_vocab_size", None)
    yield path, tensor if vocabulary is None else tensor[:vocabulary]
