"""A start that can already copy: a previous-token head and induction heads, written into fresh weights.

A model of this size finds induction (look back for where this token stood, take the one that followed; Olsson et al.
2022) only after tens of millions of tokens. Copying words from a document, a schema or a result is most of what both
roles do, so it is given at the start, as in mimetic initialisation (Trockman and Kolter 2023), and training refines it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["hold_copying_heads", "write_copying_heads"]

_SCALE = 0.5
_BIAS = 3.0
_SHARP_PREVIOUS = 2.0
_SHARP_MATCH = 1.9
_CARRY = 0.8
_COPY = 3.75
_NORM = 0.08


def write_copying_heads(model: Any, *, seed: int) -> None:
    """Write the heads into a fresh Llama with tied embeddings: layer 0 head 0, and layer 1 all heads but the last.

    The hidden dimensions are shared out: 0 is constant, then come the token's, then as many as a head has for the token
    before it.

    Raises:
        ValueError: fewer than two layers or heads, or heads too wide for the hidden size.
    """
    config = model.config
    size, heads = config.hidden_size // config.num_attention_heads, config.num_attention_heads
    free = config.hidden_size // 16
    if min(heads, config.num_hidden_layers) < 2 or config.hidden_size - 2 * size - free < 1:
        raise ValueError(
            f"{config.num_hidden_layers} layers of {heads} heads cannot copy; wanted two layers, four heads"
        )
    own = slice(1, config.hidden_size - size - free)
    before = slice(own.stop, own.stop + size)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        embedding = model.model.embed_tokens.weight
        embedding.normal_(0.0, _SCALE, generator=generator)
        embedding[:, before] *= 0.1
        embedding[:, 0] = _BIAS * _SCALE
        model.model.norm.weight.fill_(_NORM)
        model.model.norm.weight[0] = 0.0
        width = own.stop - own.start
        mixed, _ = torch.linalg.qr(torch.randn(width, size, generator=generator))
        _previous_token_head(model.model.layers[0].self_attn, size, own, before, mixed.T, config)
        for head in range(heads - 1):
            taken = range(own.start + head * width // (heads - 1), own.start + (head + 1) * width // (heads - 1))
            _induction_head(model.model.layers[1].self_attn, head, size, own, before, mixed.T, taken)


def _frequencies(size: int, config: Any) -> Tensor:
    theta = float(config.rope_parameters["rope_theta"])
    return theta ** (-torch.arange(size // 2) / (size // 2))


def _previous_token_head(attention: Any, size: int, own: slice, before: slice, mixed: Tensor, config: Any) -> None:
    """Attends to the token before by rotary phase alone, and carries a mix of its dimensions over."""
    half, turns = size // 2, _frequencies(size, config)
    query, key = attention.q_proj.weight[:size], attention.k_proj.weight[:size]
    query.zero_()
    key.zero_()
    query[:half, 0] = _SHARP_PREVIOUS * torch.cos(turns)
    query[half:, 0] = -_SHARP_PREVIOUS * torch.sin(turns)
    key[:half, 0] = _SHARP_PREVIOUS
    attention.v_proj.weight[:size].zero_()
    attention.v_proj.weight[:size, own] = mixed
    attention.o_proj.weight[:, :size].zero_()
    attention.o_proj.weight[before, :size] = _CARRY * torch.eye(size)


def _induction_head(
    attention: Any, head: int, size: int, own: slice, before: slice, mixed: Tensor, taken: range
) -> None:
    """Attends to where the token before was the present one, and copies the dimensions `taken` of what stands there."""
    rows = slice(head * size, (head + 1) * size)
    half = size // 2
    # In the pairs of the slowest rotary frequencies, a match hardly depends on the distance.
    pairs = size // 4 - 1
    slow = [*range(half - pairs, half), *range(size - pairs, size)]
    query, key = attention.q_proj.weight[rows], attention.k_proj.weight[rows]
    query.zero_()
    key.zero_()
    for place, row in enumerate(slow):
        query[row, own] = _SHARP_MATCH * mixed[place]
        key[row, before.start + place] = _SHARP_MATCH
    value, out = attention.v_proj.weight[rows], attention.o_proj.weight[:, rows]
    value.zero_()
    out.zero_()
    for place, dimension in enumerate(taken):
        value[place, dimension] = 1.0
        out[dimension, place] = _COPY


def hold_copying_heads(model: Any) -> Callable[[], None]:
    """Keep the heads as they are while the rest of the model is young; the function returned lets them go.

    The constant dimension stays constant for good: it would otherwise be used up for how frequent each token is.
    """
    size, heads = model.config.hidden_size // model.config.num_attention_heads, model.config.num_attention_heads
    model.model.embed_tokens.weight.register_hook(lambda gradient: _without(gradient, (slice(None), slice(0, 1))))
    model.model.norm.weight.register_hook(lambda gradient: _without(gradient, (slice(0, 1),)))
    first, second = (model.model.layers[index].self_attn for index in (0, 1))
    copying = slice(0, size * (heads - 1))
    held = [
        (first.q_proj, (slice(0, size),)),
        (first.k_proj, (slice(0, size),)),
        (first.v_proj, (slice(0, size),)),
        (first.o_proj, (slice(None), slice(0, size))),
        (second.q_proj, (copying,)),
        (second.k_proj, (copying,)),
        (second.v_proj, (copying,)),
        (second.o_proj, (slice(None), copying)),
    ]
    hooks = [
        projection.weight.register_hook(lambda gradient, where=where: _without(gradient, where))
        for projection, where in held
    ]

    def let_go() -> None:
        while hooks:
            hooks.pop().remove()

    return let_go


def _without(gradient: Tensor, where: tuple[slice, ...]) -> Tensor:
    kept = gradient.clone()
    kept[where] = 0
    return kept
