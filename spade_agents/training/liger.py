"""Liger's fused head: the scores of `head.token_scores` by Triton kernels, on GPUs."""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from spade_agents.errors import PolicyError, UsageError
from spade_agents.training.config import DeepSpeedEngineConfig, EngineSettings, HeadKernel
from spade_agents.training.head import Scores, token_scores

__all__ = ["chosen_scores", "disagreement", "liger_scores"]

_INSTALL = "pip install 'spade-agents[liger]', or set training.engine.head_kernel=torch"


def chosen_scores(config: EngineSettings) -> Scores:
    """What scores the trained tokens of an engine with these settings.

    `auto` takes liger on a GPU where it is installed, agrees with torch there and ZeRO-3 does not split the head.

    Raises:
        UsageError: liger is asked for and is not installed, or computes something else.
    """
    on_gpu = torch.device(config.device).type == "cuda"
    splits = isinstance(config, DeepSpeedEngineConfig) and config.zero_stage == 3
    if config.head_kernel is HeadKernel.TORCH or (config.head_kernel is HeadKernel.AUTO and (splits or not on_gpu)):
        return token_scores
    fault = _fault(config.device)
    if not fault:
        return liger_scores
    if config.head_kernel is HeadKernel.AUTO:
        return token_scores
    raise UsageError(f"training.engine.head_kernel is 'liger', and {fault}")


def liger_scores(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperatures: Tensor) -> Tensor:
    """As `token_scores`: the negative of a fused cross-entropy that is not reduced.

    It takes no temperatures, so hidden states are divided by theirs; in bf16 that rounds once more.

    Raises:
        PolicyError: the head has a bias, which no temperature of hidden states divides.
    """
    if bias is not None:
        raise PolicyError("the model's head has a bias, which liger's cannot score; set head_kernel=torch")
    fused = importlib.import_module("liger_kernel.transformers").LigerFusedLinearCrossEntropyLoss
    scaled = (hidden / temperatures.unsqueeze(1)).to(hidden.dtype)
    losses: Tensor = fused(reduction="none", accum_dtype=torch.float32)(weight, scaled, targets)
    return -losses


def disagreement(device: torch.device | str) -> float:
    """The largest difference between liger's scores and gradients and torch's, on a small problem.

    Releases of before July 2026 scale every token's gradient by the first token's, and nothing tells of it.
    """
    source = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(rows, 64, generator=source).to(device) / 4 for rows in (37, 311))
    targets = torch.randint(0, 311, (37,), generator=source).to(device)
    temperatures, upstream = (torch.rand(37, generator=source).to(device) + 0.5 for _ in range(2))
    found = []
    for scores in (liger_scores, token_scores):
        states, head = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        values = scores(states, head, None, targets, temperatures)
        found.append((values.detach(), *torch.autograd.grad(values, (states, head), upstream)))
    return max(float((one - other).abs().max()) for one, other in zip(*found, strict=True))


def _fault(device: str) -> str:
    """Why liger cannot be used; empty where it can."""
    if importlib.util.find_spec("liger_kernel") is None:
        return f"liger-kernel is not installed: {_INSTALL}"
    try:
        apart = disagreement(device)
    except Exception as error:  # a compiler's or driver's, of any kind
        return f"its kernels do not run on {device} ({type(error).__name__}: {error}): set head_kernel=torch"
    if apart < _TOLERANCE:
        return ""
    return (
        f"liger-kernel {_installed()} differs from torch by {apart:.2g} on a small problem; wanted below {_TOLERANCE}: "
        "pip install --upgrade liger-kernel, or set training.engine.head_kernel=torch"
    )


_TOLERANCE = 5e-3
"""Of scores and gradients of size 1 in fp32, TF32 products included."""


def _installed() -> str:
    try:
        return version("liger-kernel")
    except PackageNotFoundError:
        return "(of unknown version)"
