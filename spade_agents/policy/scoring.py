"""Log-probabilities of given tokens by the sampling weights: the canary that proves a weight sync."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from spade_agents.policy.llama import Llama

__all__ = ["score_tokens"]


@torch.inference_mode()
def score_tokens(model: Llama, token_ids: Sequence[int], *, temperature: float = 1.0) -> list[float]:
    """Log-probability at `temperature` of each token but the first, given those before it."""
    ids = torch.tensor(token_ids)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        query, key, value = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return attended[0].transpose(0, 1)

    hidden = model.forward(ids, torch.arange(len(ids)), attend)
    logprobs = (model.logits(hidden[:-1]) / temperature).log_softmax(dim=-1)
    return [float(value) for value in logprobs.gather(1, ids[1:].unsqueeze(1)).squeeze(1)]
