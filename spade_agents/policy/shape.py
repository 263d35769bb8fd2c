"""What a model is made of, from its `config.json` or from the table of the base models that recipes name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from spade_agents.errors import CheckpointError
from spade_agents.policy.model_files import read_json
from spade_agents.policy.weights import count_parameters

__all__ = ["KNOWN_MODELS", "ModelShape", "shape_of_folder"]

_ATTENTION_NORMS = frozenset({"qwen3", "qwen3_moe"})
"""Model types with a norm of their own on queries and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder of the Llama kind.

    Attributes:
        layers, hidden, heads, kv_heads, head_size, vocabulary: as usual.
        inner: width of the feed-forward part, or of one expert.
        experts: 0 where the feed-forward part is dense; active: how many of them a token takes.
        tied: whether the head is the embedding.
        attention_norms: whether queries and keys have norms.
        context: tokens.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocabulary: int
    context: int
    experts: int = 0
    active: int = 0
    tied: bool = False
    attention_norms: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read `config.json`.

        Raises:
            KeyError: it is of another kind of model.
        """
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        experts = int(config.get("num_experts") or 0)
        return cls(
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_size=int(config.get("head_dim") or hidden // heads),
            inner=int(config["moe_intermediate_size" if experts else "intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            context=int(config["max_position_embeddings"]),
            experts=experts,
            active=int(config.get("num_experts_per_tok") or 0) if experts else 0,
            tied=bool(config.get("tie_word_embeddings", False)),
            attention_norms=config.get("model_type") in _ATTENTION_NORMS,
        )

    @property
    def parameters(self) -> int:
        """All numbers of the model, a tied head counted once."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        attention = self.hidden * (queries + 2 * keys) + queries * self.hidden
        norms = 2 * self.hidden + (2 * self.head_size if self.attention_norms else 0)
        router = self.hidden * self.experts
        feed_forward = 3 * self.hidden * self.inner * max(self.experts, 1) + router
        ends = self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden
        return self.layers * (attention + norms + feed_forward) + ends

    @property
    def largest_layer(self) -> int:
        """Numbers of one layer: what a trainer that splits weights gathers at once."""
        ends = self.vocabulary * self.hidden * (1 if self.tied else 2) + self.hidden
        return (self.parameters - ends) // self.layers

    @property
    def cache_per_token(self) -> int:
        """Numbers in the cache of keys and values for one token."""
        return 2 * self.layers * self.kv_heads * self.head_size

    @property
    def activations_per_layer(self) -> int:
        """Numbers that the backward pass of one layer needs of a token, roughly."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return 6 * self.hidden + 3 * queries + 4 * keys + 4 * self.inner * max(self.active, 1)


def _qwen3(**changes: Any) -> ModelShape:
    common = {"kv_heads": 8, "head_size": 128, "vocabulary": 151_936, "context": 40_960, "attention_norms": True}
    return ModelShape(**{**common, **changes})


KNOWN_MODELS: Final[Mapping[str, ModelShape]] = {
    "Qwen3-0.6B": _qwen3(layers=28, hidden=1024, heads=16, inner=3072, tied=True),
    "Qwen3-1.7B": _qwen3(layers=28, hidden=2048, heads=16, inner=6144, tied=True),
    "Qwen3-4B-Instruct-2507": _qwen3(layers=36, hidden=2560, heads=32, inner=9728, tied=True, context=262_144),
    "Qwen3-8B": _qwen3(layers=36, hidden=4096, heads=32, inner=12_288),
    "Qwen3-30B-A3B-Instruct-2507": _qwen3(
        layers=48, hidden=2048, heads=32, kv_heads=4, inner=768, experts=128, active=8, context=262_144
    ),
}
"""The base models of the recipes, by the name of their folder, so that needs are told before anything is downloaded."""


def shape_of_folder(folder: Path) -> tuple[ModelShape, int]:
    """The shape of a Hugging Face folder's model, and its parameters as its weights have them.

    Raises:
        CheckpointError: its configuration or weights cannot be read, or are of another kind of model.
    """
    config = read_json(folder / "config.json")
    try:
        shape = ModelShape.from_config(config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise CheckpointError(
            f"{folder / 'config.json'} does not tell the model's size ({error}); wanted a decoder of the Llama kind"
        ) from error
    files = sorted(folder.glob("*.safetensors"))
    return shape, sum(count_parameters(path) for path in files) if files else shape.parameters
