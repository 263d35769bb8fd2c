"""The trainer's attention equals the library's."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from spade_agents.training import attention
from spade_agents.training.attention import (
    ATTENTION_NAME,
    KEPT_SPAN,
    causal_attention,
    fused_attention,
    packed_attention,
    use_causal_attention,
)
from spade_agents.training.packing import pack
from tests.agents.training.toy import toy_llama


def tensors(length: int, heads: int = 4, shared: int = 2, dtype=torch.float64):
    torch.manual_seed(length)
    shapes = ((2, heads, length, 8), (2, heads // shared, length, 8), (2, heads // shared, length, 8))
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
def test_chunked_attention_and_its_gradients_equal_the_librarys(length):
    query, key, value = tensors(length)
    grad = torch.randn_like(query)
    ours = causal_attention(query, key, value, scaling=0.3)
    theirs = scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(
        torch.autograd.grad(ours, (query, key, value), grad),
        torch.autograd.grad(theirs, (query, key, value), grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("sharing", [True, False])
def test_packed_attention_and_its_gradients_equal_the_librarys_under_the_layouts_mask(sharing, kept, monkeypatch):
    monkeypatch.setattr(attention, "KEPT_SPAN", 1024 if kept else 1)
    prompt = tuple(range(100, 190))
    rows = [(*prompt, *range(index, index + 70 * index)) for index in range(4)] + [tuple(range(9))]
    layout = pack(rows, sharing=sharing).layout
    query, key, value = tensors(layout.length)
    grad = torch.randn_like(query)
    ours = packed_attention(query, key, value, scaling=0.3, layout=layout)
    theirs = scaled_dot_product_attention(query, key, value, attn_mask=layout.mask(), scale=0.3, enable_gqa=True)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(
        torch.autograd.grad(ours, (query, key, value), grad),
        torch.autograd.grad(theirs, (query, key, value), grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_the_fused_kernels_called_segment_by_segment_give_the_same():
    prompt = tuple(range(100, 120))
    rows = [(*prompt, *range(index, index + 7 * index)) for index in range(4)]
    rows += [(*prompt, *range(40, 60), index) for index in range(3)]
    layout = pack(rows).layout
    assert max(len(segment.context) for segment in layout.segments) == 2
    parts = tensors(layout.length)
    grad = torch.randn_like(parts[0])
    ours = fused_attention(*parts, scaling=0.3, layout=layout)
    theirs = packed_attention(*parts, scaling=0.3, layout=layout)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(torch.autograd.grad(ours, parts, grad), torch.autograd.grad(theirs, parts, grad), strict=True):
        torch.testing.assert_close(a, b)


def test_packed_attentions_gradient_agrees_with_finite_differences():
    layout = pack([(*range(50, 60), 1, 2), (*range(50, 60), 3), (4,)]).layout
    assert torch.autograd.gradcheck(
        lambda *parts: packed_attention(*parts, scaling=0.3, layout=layout), tensors(layout.length, heads=2)
    )


def test_long_rows_whose_probabilities_are_not_kept_equal_the_fused_kernel():
    query, key, value = tensors(KEPT_SPAN + 1, dtype=torch.float32)
    ours = causal_attention(query, key, value, scaling=0.3)
    theirs = scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(ours, theirs)


def test_a_model_with_a_sliding_window_keeps_its_own_attention():
    model = toy_llama()
    model.config.layer_types = ["sliding_attention", "full_attention"]
    assert not use_causal_attention(model)
    model.config.layer_types = None
    assert use_causal_attention(model)
    assert model.config._attn_implementation == ATTENTION_NAME
    model.config.sliding_window = 64
    assert not use_causal_attention(model)
