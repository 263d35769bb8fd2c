"""Llama for inference in plain torch: weights, and one forward pass over tokens packed without padding."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from spade_agents.errors import CheckpointError

__all__ = ["Attend", "Llama", "LlamaShape", "is_plain_llama", "read_state"]

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q (N, H, D), k (N, K, D), v (N, K, D)) to (N, H, D); keeps k and v, and knows which token is in which row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """The numbers of a Llama `config.json`."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    epsilon: float
    rope_theta: float
    context_length: int
    tied: bool

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read a configuration of Hugging Face's Llama.

        Raises:
            CheckpointError: another architecture, biases, or scaled rotary embeddings.
        """
        if config.get("model_type") != "llama":
            raise CheckpointError(f"the model is of type {config.get('model_type')!r}; the torch policy reads 'llama'")
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default" or config.get("attention_bias") or config.get("mlp_bias"):
            raise CheckpointError(f"rotary embeddings of type {kind!r} or biases are not read by the torch policy")
        if config.get("hidden_act", "silu") != "silu":
            raise CheckpointError(f"the activation {config['hidden_act']!r} is not read by the torch policy")
        heads = int(config["num_attention_heads"])
        return cls(
            vocabulary=int(config["vocab_size"]),
            hidden=int(config["hidden_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_size=int(config.get("head_dim") or config["hidden_size"] // heads),
            intermediate=int(config["intermediate_size"]),
            epsilon=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            context_length=int(config["max_position_embeddings"]),
            tied=bool(config.get("tie_word_embeddings", False)),
        )


def is_plain_llama(config: Mapping[str, Any]) -> bool:
    """Whether `LlamaShape` reads this `config.json`; any other model is left to transformers."""
    try:
        LlamaShape.from_config(config)
    except (CheckpointError, KeyError, TypeError, ValueError):
        return False
    return True


@dataclass(slots=True)
class _Layer:
    """One block; each norm's weight is folded into the matrix behind it."""

    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor


class Llama:
    """Weights laid out for sampling.

    Args:
        shape: of the model.
        state: tensors by their Hugging Face names; copied.
        dtype: of weights, activations and the key-value cache; logits are always fp32.

    Raises:
        CheckpointError: a tensor is missing or of another shape.
    """

    def __init__(self, shape: LlamaShape, state: Mapping[str, Tensor], *, dtype: torch.dtype = torch.float32) -> None:
        self.shape = shape
        self.dtype = dtype
        # In fp32 throughout, as transformers does it: exact angles would differ from the trainer's by 1e-5.
        steps = torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size
        angles = torch.outer(torch.arange(shape.context_length, dtype=torch.float32), 1.0 / shape.rope_theta**steps)
        self._rotation = torch.complex(angles.cos(), angles.sin())
        self.load(state)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace all weights; nothing changes when a tensor is missing or misshapen.

        Raises:
            CheckpointError: a tensor is missing or of another shape.
        """
        layers = [self._read_layer(state, f"model.layers.{index}.") for index in range(self.shape.layers)]
        size = (self.shape.vocabulary, self.shape.hidden)
        embedding = _tensor(state, "model.embed_tokens.weight", size).to(self.dtype, copy=True)
        norm = _tensor(state, "model.norm.weight", (self.shape.hidden,)).to(self.dtype, copy=True)
        untied = None if self.shape.tied else _tensor(state, "lm_head.weight", size).to(self.dtype, copy=True)
        self._layers, self._embedding, self._norm = layers, embedding, norm
        self._head = embedding if untied is None else untied

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    def forward(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last block, before its norm.

        Args:
            ids: (N,) tokens of any number of rows, one after another.
            positions: (N,) each token's place in its row.
            attend: see `Attend`.

        Returns:
            (N, hidden).
        """
        shape = self.shape
        count, heads, groups = len(ids), shape.heads, shape.heads + shape.kv_heads
        rotation = self._rotation[positions].unsqueeze(1)
        x = functional.embedding(ids, self._embedding)
        for index, layer in enumerate(self._layers):
            qkv = functional.linear(self._normed(x), layer.qkv).view(count, groups + shape.kv_heads, shape.head_size)
            qk = _rotate(qkv[:, :groups], rotation)
            attended = attend(index, qk[:, :heads], qk[:, heads:], qkv[:, groups:])
            x = x + functional.linear(attended.reshape(count, heads * shape.head_size), layer.out)
            gate, up = functional.linear(self._normed(x), layer.gate_up).chunk(2, dim=-1)
            x = x + functional.linear(functional.silu(gate) * up, layer.down)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """(N, hidden) to fp32 logits (N, vocabulary)."""
        return functional.linear(self._normed(hidden) * self._norm, self._head).float()

    def _normed(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (self.shape.hidden,), None, self.shape.epsilon)

    def _read_layer(self, state: Mapping[str, Tensor], prefix: str) -> _Layer:
        shape = self.shape
        queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        before = _tensor(state, prefix + "input_layernorm.weight", (shape.hidden,)).float()
        after = _tensor(state, prefix + "post_attention_layernorm.weight", (shape.hidden,)).float()

        def read(name: str, *size: int) -> Tensor:
            return _tensor(state, f"{prefix}{name}.weight", size).float()

        qkv = [
            _interleaved(read("self_attn.q_proj", queries, shape.hidden), shape.head_size),
            _interleaved(read("self_attn.k_proj", keys, shape.hidden), shape.head_size),
            read("self_attn.v_proj", keys, shape.hidden),
        ]
        gate_up = [read(f"mlp.{name}_proj", shape.intermediate, shape.hidden) for name in ("gate", "up")]
        return _Layer(
            qkv=(torch.cat(qkv) * before).to(self.dtype),
            out=read("self_attn.o_proj", shape.hidden, queries).to(self.dtype, copy=True),
            gate_up=(torch.cat(gate_up) * after).to(self.dtype),
            down=read("mlp.down_proj", shape.hidden, shape.intermediate).to(self.dtype, copy=True),
        )


def read_state(folder: Path) -> dict[str, Tensor]:
    """All tensors of a Hugging Face folder's safetensors files.

    Raises:
        CheckpointError: none there, or one that cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    index = folder / "model.safetensors.index.json"
    names = {"model.safetensors"}
    state: dict[str, Tensor] = {}
    try:
        if index.is_file():
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        for name in sorted(names):
            state.update(load_file(folder / name))
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder} has no readable model.safetensors: {error}") from error
    return state


def _tensor(state: Mapping[str, Tensor], name: str, size: tuple[int, ...]) -> Tensor:
    if name not in state:
        raise CheckpointError(f"the weights have no tensor {name!r}; wanted a Llama checkpoint of this configuration")
    tensor = state[name].detach()
    if tuple(tensor.shape) != size:
        raise CheckpointError(f"the tensor {name!r} is {tuple(tensor.shape)}; its configuration wants {size}")
    return tensor


def _interleaved(weight: Tensor, head_size: int) -> Tensor:
    """Rows of q or k reordered so that each rotated pair (i, i + D/2) is adjacent; q·k does not change."""
    return weight.view(-1, 2, head_size // 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def _rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotary embedding as one complex product; (N, heads, D) by (N, 1, D/2), in place where `x` is fp32."""
    exact = x.float()
    torch.view_as_complex(exact.view(*x.shape[:-1], -1, 2)).mul_(rotation)
    return exact.to(x.dtype)
