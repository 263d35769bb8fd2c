"""Attention over packed rows and causal rows, several times faster on a CPU than the fused kernel's backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from spade_agents.training.packing import Layout, Ranges, Segment

__all__ = [
    "ATTENTION_NAME",
    "KEPT_SPAN",
    "causal_attention",
    "fused_attention",
    "packed_attention",
    "use_causal_attention",
]

ATTENTION_NAME = "spade_causal"
KEPT_SPAN = 1024
"""Where tokens see more than this many, probabilities are computed again for the backward pass instead of kept."""

_MODEL_TYPES = frozenset({"llama", "mistral", "qwen2", "qwen3", "qwen3_moe"})


class _Chunk(NamedTuple):
    """Queries start … end − 1, which see the ranges: whole, but for the last `end − start` keys, which are causal."""

    start: int
    end: int
    seen: Ranges


class _ChunkedAttention(torch.autograd.Function):
    """Attention by chunks of queries, each against just the keys it may see."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """Shapes (N, G, T, D) for the query, already scaled, and (N, T, D): G queries share a key."""
        out, kept = torch.empty_like(query), []
        keep = layout.span <= KEPT_SPAN
        for chunk in _chunks(layout, query.dtype):
            probabilities = _probabilities(query, key, chunk)
            _put(out, chunk, torch.bmm(probabilities, _gather(value, chunk.seen)))
            kept += [probabilities] if keep else []
        ctx.save_for_backward(query, key, value, out, *kept)
        ctx.layout = layout
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """The softmax's gradient with Σ g·out in place of Σ dp·p, as in FlashAttention."""
        query, key, value, out, *kept = ctx.saved_tensors
        grad = grads[0]
        rowsum = (grad * out).sum(-1, keepdim=True)
        d_query = torch.empty_like(query)
        # Many branches add to their prompt's gradient: in bf16 the later ones would be rounded away.
        d_key = torch.zeros_like(key, dtype=torch.promote_types(key.dtype, torch.float32))
        d_value = torch.zeros_like(d_key)
        for index, chunk in enumerate(_chunks(ctx.layout, query.dtype)):
            probabilities = kept[index] if kept else _probabilities(query, key, chunk)
            part, keys = _take(grad, chunk), _gather(key, chunk.seen)
            _scatter(d_value, chunk.seen, torch.bmm(probabilities.transpose(1, 2), part))
            d_scores = torch.bmm(part, _gather(value, chunk.seen).transpose(1, 2))
            d_scores.sub_(_take(rowsum, chunk)).mul_(probabilities)
            _put(d_query, chunk, torch.bmm(d_scores, keys))
            _scatter(d_key, chunk.seen, torch.bmm(d_scores.transpose(1, 2), _take(query, chunk)))
        return d_query, d_key.to(key.dtype), d_value.to(value.dtype), None


def _probabilities(query: Tensor, key: Tensor, chunk: _Chunk) -> Tensor:
    """Shape (N, G · queries, keys)."""
    scores = torch.bmm(_take(query, chunk), _gather(key, chunk.seen).transpose(1, 2))
    size = chunk.end - chunk.start
    if size > 1:
        future = torch.ones(size, size, dtype=torch.bool, device=query.device).triu_(1)
        scores.view(len(key), -1, size, scores.shape[2])[..., -size:].masked_fill_(future, float("-inf"))
    return scores.softmax(-1)


def _chunks(layout: Layout, dtype: torch.dtype) -> Iterator[_Chunk]:
    """Segments cut into pieces; wider ones where matrix products are cheap."""
    size = 128 if dtype is torch.bfloat16 else 64
    for segment in layout.segments:
        for start in range(segment.start, segment.end, size):
            end = min(start + size, segment.end)
            yield _Chunk(start, end, _joined(segment, end))


def _joined(segment: Segment, end: int) -> Ranges:
    if segment.context and segment.context[-1][1] == segment.start:
        return (*segment.context[:-1], (segment.context[-1][0], end))
    return (*segment.context, (segment.start, end))


def _take(tensor: Tensor, chunk: _Chunk) -> Tensor:
    """(N, G, T, D) to (N, G · queries, D)."""
    return tensor[:, :, chunk.start : chunk.end].flatten(1, 2)


def _put(tensor: Tensor, chunk: _Chunk, part: Tensor) -> None:
    """The inverse of `_take`."""
    place = tensor[:, :, chunk.start : chunk.end]
    place.copy_(part.view(place.shape))


def _gather(tensor: Tensor, ranges: Ranges) -> Tensor:
    """(N, T, D) to (N, keys, D)."""
    parts = [tensor[:, start:end] for start, end in ranges]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _scatter(tensor: Tensor, ranges: Ranges, part: Tensor) -> None:
    """Add the inverse of `_gather`."""
    done = 0
    for start, end in ranges:
        tensor[:, start:end] += part[:, done : done + end - start]
        done += end - start


def packed_attention(query: Tensor, key: Tensor, value: Tensor, *, scaling: float, layout: Layout) -> Tensor:
    """Attention in which a layout says who sees whom.

    Args:
        query: shape (B, H, T, D).
        key: shape (B, K, T, D), K dividing H.
        value: as the key.
        scaling: factor on the scores.
        layout: of the T tokens, the same in each of the B rows.

    Returns:
        Shape (B, H, T, D).
    """
    device = query.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else query.dtype
    if device != "cpu":
        return fused_attention(*(part.to(kind) for part in (query, key, value)), scaling=scaling, layout=layout)
    groups = query.shape[1] // key.shape[1]
    own, other = (part.to(kind).flatten(0, 1).contiguous() for part in (key, value))
    asked = (query * scaling).to(kind).reshape(own.shape[0], groups, *query.shape[2:])
    out: Tensor = _ChunkedAttention.apply(asked.contiguous(), own, other, layout)  # type: ignore[no-untyped-call]
    return out.view_as(query)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, *, scaling: float, layout: Layout) -> Tensor:
    """The same by the library's fused kernels, one call a segment: accelerators have fast ones, and no mask is made.

    Arguments and result as of `packed_attention`.
    """
    sizes = [segment.end - segment.start for segment in layout.segments]
    # Split once: a slice's gradient would be as large as the whole row.
    queries, keys, values = (torch.split(part, sizes, 2) for part in (query, key, value))
    outs = []
    for number, seen in enumerate(_seen(layout)):
        outs.append(
            scaled_dot_product_attention(
                queries[number],
                torch.cat([keys[index] for index in seen], 2),
                torch.cat([values[index] for index in seen], 2),
                attn_mask=causal_lower_right(sizes[number], layout.segments[number].span),
                scale=scaling,
                enable_gqa=query.shape[1] > key.shape[1],
            )
        )
    return torch.cat(outs, 2)


@lru_cache(maxsize=4)
def _seen(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """Which segments each one sees, itself last; the same for all layers."""
    return tuple(
        (
            *(
                other
                for start, end in segment.context
                for other, earlier in enumerate(layout.segments[:number])
                if start <= earlier.start and earlier.end <= end
            ),
            number,
        )
        for number, segment in enumerate(layout.segments)
    )


def causal_attention(query: Tensor, key: Tensor, value: Tensor, *, scaling: float) -> Tensor:
    """Causal attention over whole rows; right-padded rows need no mask, since no real token looks at a later one.

    Arguments and result as of `packed_attention`.
    """
    if query.device.type != "cpu":
        shared = query.shape[1] > key.shape[1]
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=shared)
    whole = Layout(segments=(Segment(start=0, end=query.shape[2]),))
    return packed_attention(query, key, value, scaling=scaling, layout=whole)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float,
    layout: Layout | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    del module, attention_mask
    if layout is None:
        out = causal_attention(query, key, value, scaling=scaling)
    else:
        out = packed_attention(query, key, value, scaling=scaling, layout=layout)
    return out.transpose(1, 2).contiguous(), None


def _no_mask(*_: Any, **__: Any) -> None:
    return None


def use_causal_attention(model: Any) -> bool:
    """Let a transformers model use this attention where it is the same function; tells whether it does.

    Only for whole causal rows and packed rows, without cache: the trainer's forward pass, not the sampler's. A packed
    row's layout reaches it as the argument `layout` of the model.
    """
    config = model.config
    kinds = getattr(config, "layer_types", None)
    one_window = getattr(config, "sliding_window", None) is not None
    windowed = any(kind != "full_attention" for kind in kinds) if kinds else one_window
    dropout = bool(getattr(config, "attention_dropout", False))
    if config.model_type not in _MODEL_TYPES or windowed or dropout:
        return False
    AttentionInterface.register(ATTENTION_NAME, _attend)
    AttentionMaskInterface.register(ATTENTION_NAME, _no_mask)
    model.set_attn_implementation(ATTENTION_NAME)
    return True
