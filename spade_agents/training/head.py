"""Log-probabilities of chosen tokens, chunk by chunk: the logits of all of them never exist at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from spade_agents.errors import PolicyError

__all__ = ["Scores", "ScoringHead", "score_head", "token_scores"]

Scores: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor, Tensor], Tensor]
"""`token_scores`, or what computes the same."""

_CHUNK = {"cpu": 2**25}
_LARGE_CHUNK = 2**28
"""Logits held at once: enough rows for an efficient matrix product, few enough to fit anywhere."""
_BLOCK = 2**20
"""Logits turned into probabilities at once on a CPU: they stay in its cache from the first operation to the last."""


def token_scores(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperatures: Tensor) -> Tensor:
    """Log-softmax of W·h/temperature at the targets, without ever holding all logits.

    Args:
        hidden: shape (N, D).
        weight: shape (V, D), of the same dtype, which is that of the matrix products.
        bias: shape (V,).
        targets: shape (N,).
        temperatures: shape (N,).

    Returns:
        Shape (N,), fp32 (fp64 for fp64).
    """
    scores: Tensor = _TokenScores.apply(hidden, weight, bias, targets, temperatures)  # type: ignore[no-untyped-call]
    return scores


class _TokenScores(torch.autograd.Function):
    """The logits are computed a second time for the backward pass, unless they fit into one chunk."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperatures: Tensor
    ) -> Tensor:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        scores = torch.empty(len(hidden), dtype=exact, device=hidden.device)
        norms = torch.empty_like(scores)
        chunks = list(_chunks(hidden, weight))
        logits = hidden.new_empty(0)
        for chunk in chunks:
            logits = linear(hidden[chunk], weight, bias)
            for inner, rows in _blocks(chunk, logits):
                scaled = logits[inner].to(exact) / temperatures[rows].unsqueeze(1)
                norms[rows] = _log_sum(scaled)
                scores[rows] = scaled.gather(1, targets[rows].unsqueeze(1)).squeeze(1) - norms[rows]
        ctx.save_for_backward(hidden, weight, bias, targets, temperatures, norms, logits if len(chunks) == 1 else None)
        return scores

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The slope of log p(target) along a logit is (1[target] − p)/temperature."""
        hidden, weight, bias, targets, temperatures, norms, kept = ctx.saved_tensors
        scale = grads[0] / temperatures
        exact = norms.dtype
        d_hidden = torch.empty_like(hidden)
        d_weight: Tensor | None = None
        d_bias = torch.zeros_like(bias, dtype=exact) if bias is not None else None
        chunks = list(_chunks(hidden, weight))
        if ctx.needs_input_grad[1] and len(chunks) != 1:
            # Many chunks are summed here: in bf16 the later ones would be rounded away.
            d_weight = torch.zeros_like(weight, dtype=exact)
        for chunk in chunks:
            logits = linear(hidden[chunk], weight, bias) if kept is None else kept.clone()
            for inner, rows in _blocks(chunk, logits):
                scaled = logits[inner].to(exact) / temperatures[rows].unsqueeze(1)
                slope = scaled.sub_(norms[rows].unsqueeze(1)).exp_().mul_(-scale[rows].unsqueeze(1))
                logits[inner] = slope.scatter_add_(1, targets[rows].unsqueeze(1), scale[rows].unsqueeze(1))
            d_hidden[chunk] = logits @ weight
            if d_weight is not None:
                d_weight += logits.T @ hidden[chunk]
            elif ctx.needs_input_grad[1]:
                d_weight = logits.T @ hidden
            if d_bias is not None:
                d_bias += logits.sum(0, dtype=exact)
        return d_hidden, d_weight, d_bias, None, None


def _log_sum(scaled: Tensor) -> Tensor:
    top = scaled.amax(1, keepdim=True)
    return (scaled - top).exp_().sum(1).log_().add_(top.squeeze(1))


def _chunks(hidden: Tensor, weight: Tensor) -> Iterator[slice]:
    """Rows whose logits are computed together."""
    step = max(1, _CHUNK.get(hidden.device.type, _LARGE_CHUNK) // len(weight))
    for start in range(0, len(hidden), step):
        yield slice(start, min(start + step, len(hidden)))


def _blocks(chunk: slice, logits: Tensor) -> Iterator[tuple[slice, slice]]:
    """Rows of a chunk for the operations that no matrix product is part of: inside the chunk, and inside the whole."""
    step = max(1, _BLOCK // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    for start in range(0, len(logits), step):
        end = min(start + step, len(logits))
        yield slice(start, end), slice(chunk.start + start, chunk.start + end)


class ScoringHead(nn.Linear):
    """A language model's head that also scores given tokens; called with hidden states alone it gives logits."""

    scores: Scores

    def forward(self, input: Tensor, targets: Tensor | None = None, temperatures: Tensor | None = None) -> Tensor:
        """Logits of `input` (…, D), or log-probabilities (N,) of `targets` (N,) at `temperatures` for input (N, D)."""
        if targets is None or temperatures is None:
            return super().forward(input)
        device = input.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.weight.dtype
        bias = self.bias.to(kind) if self.bias is not None else None
        return self.scores(input.to(kind), self.weight.to(kind), bias, targets, temperatures)


def score_head(model: Any, scores: Scores = token_scores) -> None:
    """Make a model's head a `ScoringHead`, in place; `scores` is what it scores by.

    The module itself scores, so that hooks on it (ZeRO-3 gathers weights by them) see every use of its weights.

    Raises:
        PolicyError: the head is no plain linear layer.
    """
    head: Any = model.get_output_embeddings()
    if type(head) not in (nn.Linear, ScoringHead):
        raise PolicyError(f"the model's head is a {type(head).__name__}; wanted nn.Linear: train a model that has one")
    head.__class__ = ScoringHead
    head.scores = scores
