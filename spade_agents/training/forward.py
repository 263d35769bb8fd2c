"""The trainer's forward pass: log-probabilities of the trained tokens, and logits nowhere else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from spade_agents.errors import PolicyError, UsageError
from spade_agents.training.attention import use_causal_attention
from spade_agents.training.config import Packing, Precision
from spade_agents.training.head import Scores, score_head, token_scores
from spade_agents.training.packing import Layout

__all__ = ["Tokens", "TrainableForward", "autocast"]

_LOGIT_SETTINGS = ("final_logit_softcapping", "logit_scale", "logits_scaling")


class Tokens(NamedTuple):
    """Rows of tokens and the places to score: right-padded rows, or one packed row.

    Attributes:
        input_ids: shape (B, T).
        positions: of the token *before* each target, into the flattened (B · T), shape (N,).
        targets: the tokens to score, shape (N,).
        temperatures: of their sampling, shape (N,).
        position_ids: of a packed row, shape (1, T).
        layout: of a packed row: which tokens see which.
    """

    input_ids: Tensor
    positions: Tensor
    targets: Tensor
    temperatures: Tensor
    position_ids: Tensor | None = None
    layout: Layout | None = None

    def to(self, device: torch.device | str) -> Tokens:
        """The same on another device."""
        places = None if self.position_ids is None else self.position_ids.to(device)
        return self._replace(
            input_ids=self.input_ids.to(device),
            positions=self.positions.to(device),
            targets=self.targets.to(device),
            temperatures=self.temperatures.to(device),
            position_ids=places,
        )


class TrainableForward(nn.Module):
    """Wraps a transformers causal language model for training on chosen tokens.

    Args:
        model: any causal language model whose logits are its head's output; its attention is replaced by a faster equal
            one where that exists, so give the trainer its own copy of a model that also samples.
        precision: of the matrix products; what is returned is fp32.
        packing: of the rows it will be given.
        gradient_checkpointing: compute the inside of each layer again for the backward pass.
        scores: what scores tokens in the head.

    Raises:
        UsageError: packed rows are wanted, and the model's attention is not plain causal attention; or checkpointing
            is, and its layers have none.
        PolicyError: the model changes its logits after the head, or has a head of its own kind.
    """

    def __init__(
        self,
        model: Any,
        precision: Precision = Precision.FP32,
        *,
        packing: Packing = Packing.PADDED,
        gradient_checkpointing: bool = False,
        scores: Scores = token_scores,
    ) -> None:
        super().__init__()
        changed = [name for name in _LOGIT_SETTINGS if getattr(model.config, name, None) not in (None, 1.0)]
        if changed:
            raise PolicyError(f"the model's logits depend on {', '.join(changed)}; train a model without it")
        score_head(model, scores)
        self.packs = use_causal_attention(model)
        if packing is not Packing.PADDED and not self.packs:
            raise UsageError(_cannot_pack(model, f"{packing} rows"))
        self.model = model
        self.precision = precision
        self._checkpointed = _checkpointed(model) if gradient_checkpointing else []

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        targets: Tensor,
        temperatures: Tensor,
        position_ids: Tensor | None = None,
        layout: Layout | None = None,
    ) -> Tensor:
        """Log-probabilities of `targets` at `temperatures`, shape (N,), fp32; arguments as in `Tokens`.

        Raises:
            PolicyError: a packed row for a model whose attention is of another kind.
        """
        if layout is not None and not self.packs:
            raise PolicyError(_cannot_pack(self.model, "a packed row"))
        for layer in self._checkpointed:
            # The library's layers look at this; what is inside them stays in evaluation mode.
            layer.training = torch.is_grad_enabled()
        with autocast(self.precision, input_ids.device):
            packed = {} if layout is None else {"position_ids": position_ids, "layout": layout}
            hidden = self.model.base_model(input_ids=input_ids, use_cache=False, **packed).last_hidden_state
            chosen = hidden.flatten(0, 1).index_select(0, positions)
            scores: Tensor = self.model.get_output_embeddings()(chosen, targets, temperatures)
        return scores


def _checkpointed(model: Any) -> list[nn.Module]:
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers or not model.supports_gradient_checkpointing:
        raise UsageError(
            f"found a model of type {model.config.model_type}, which cannot checkpoint its layers; set "
            "gradient_checkpointing = false"
        )
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return layers


def _cannot_pack(model: Any, found: str) -> str:
    return (
        f"found {found} for a model of type {model.config.model_type}, whose attention (windows, dropout or another "
        'kind) the trainer cannot pack; set packing = "padded"'
    )


def autocast(precision: Precision, device: torch.device | str = "cpu") -> AbstractContextManager[Any]:
    """bf16 matrix products over fp32 weights; otherwise whatever is in force outside."""
    if precision is not Precision.BF16:
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16)
