"""The trainer's forward pass: log-probabilities of the trained tokens, and logits nowhere else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from spade_agents.errors import PolicyError
from spade_agents.training.attention import use_causal_attention
from spade_agents.training.config import Precision

__all__ = ["Tokens", "TrainableForward", "autocast"]

_LOGIT_SETTINGS = ("final_logit_softcapping", "logit_scale", "logits_scaling")


class Tokens(NamedTuple):
    """Rows of tokens and the places to score.

    Attributes:
        input_ids: shape (B, T), right-padded.
        positions: of the token *before* each target, into the flattened (B · T), shape (N,).
        targets: the tokens to score, shape (N,).
        temperatures: of their sampling, shape (N,).
    """

    input_ids: Tensor
    positions: Tensor
    targets: Tensor
    temperatures: Tensor

    def to(self, device: torch.device | str) -> Tokens:
        """The same on another device."""
        return Tokens(*(part.to(device) for part in self))


class TrainableForward(nn.Module):
    """Wraps a transformers causal language model for training on chosen tokens.

    Args:
        model: any causal language model whose logits are its head's output; its attention is replaced by a faster equal
            one where that exists, so give the trainer its own copy of a model that also samples.
        precision: of the matrix products; what is returned is fp32.

    Raises:
        PolicyError: the model changes its logits after the head.
    """

    def __init__(self, model: Any, precision: Precision = Precision.FP32) -> None:
        super().__init__()
        changed = [name for name in _LOGIT_SETTINGS if getattr(model.config, name, None) not in (None, 1.0)]
        if changed:
            raise PolicyError(f"the model's logits depend on {', '.join(changed)}; train a model without it")
        use_causal_attention(model)
        self.model = model
        self.precision = precision

    def forward(self, input_ids: Tensor, positions: Tensor, targets: Tensor, temperatures: Tensor) -> Tensor:
        """Log-probabilities of `targets` at `temperatures`, shape (N,), fp32; arguments as in `Tokens`."""
        with autocast(self.precision, input_ids.device):
            hidden = self.model.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
            chosen = hidden.flatten(0, 1).index_select(0, positions)
            logits = self.model.get_output_embeddings()(chosen)
        # In place: the head's gradient needs its input only, and this is the largest tensor of all.
        scaled = logits.float().div_(temperatures.unsqueeze(1))
        return -cross_entropy(scaled, targets, reduction="none")


def autocast(precision: Precision, device: torch.device | str = "cpu") -> AbstractContextManager[Any]:
    """bf16 matrix products; for fp32 whatever is in force outside."""
    if precision is Precision.FP32:
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16)
