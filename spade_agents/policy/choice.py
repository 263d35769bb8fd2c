"""Choosing tokens: temperature, top-k, top-p, and the log-probability under exactly what was sampled from."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Chosen", "choose"]


class Chosen(NamedTuple):
    """Tokens (N,) and their log-probabilities (N,)."""

    tokens: Tensor
    logprobs: Tensor


def choose(logits: Tensor, uniforms: Tensor, *, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Chosen:
    """Sample one token a row by inverting its distribution at that row's own uniform number.

    One number a row and step makes a row's tokens independent of the rows beside it.

    Args:
        logits: (N, vocabulary), fp32.
        uniforms: (N,) in [0, 1), fp64.
        temperature: (N,); 0 takes the most likely token, whose log-probability is then that at temperature 1.
        top_k: (N,) integers, 0 for all tokens.
        top_p: (N,), 1 for all tokens.

    Returns:
        Tokens, and their log-probabilities at the temperature, renormalised over what top-k and top-p leave.
    """
    greedy = temperature == 0
    scaled = logits / torch.where(greedy, 1.0, temperature).unsqueeze(1)
    if bool((top_k > 0).any()) or bool((top_p < 1).any()):
        scaled = _filtered(scaled, top_k, top_p)
    logprobs = scaled.log_softmax(dim=-1)
    cumulative = logprobs.exp().double().cumsum(dim=-1)
    wanted = uniforms.unsqueeze(1) * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, wanted, right=True).squeeze(1).clamp_(max=logits.shape[1] - 1)
    if bool(greedy.any()):
        tokens = torch.where(greedy, logits.argmax(dim=-1), tokens)
    return Chosen(tokens, logprobs.gather(1, tokens.unsqueeze(1)).squeeze(1))


def _filtered(scaled: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Logits with -inf for tokens outside the k most likely, or outside the smallest set of mass top-p."""
    ordered, order = scaled.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(scaled.shape[1], device=scaled.device).unsqueeze(0)
    limit = torch.where(top_k > 0, top_k, scaled.shape[1]).unsqueeze(1)
    ordered = ordered.masked_fill(rank >= limit, -torch.inf)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    ordered = ordered.masked_fill((before >= top_p.unsqueeze(1)) & (rank > 0), -torch.inf)
    return torch.empty_like(scaled).scatter_(1, order, ordered)
