"""Proof that weights arrived: every tensor's checksum, a canary's log-probabilities, and no prefix of older weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from spade_agents.errors import InfrastructureError
from spade_agents.policy.vllm.inside.spade_vllm_worker import TensorSum, digest

__all__ = ["Arrival", "ArrivalError", "ProvingPolicy", "TensorSum", "check_arrival", "check_canary", "tensor_sums"]


class ArrivalError(InfrastructureError):
    """An engine does not hold the weights that it was given; the message names the first tensor that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What an engine says of the weights that it holds.

    Attributes:
        version: of the weights that it samples with.
        dtype: number format of its weights.
        sums: of each tensor, by the name under which it was given.
        prefixes: how many cached prefixes it holds, all of them computed with older weights right after a sync.
    """

    version: int
    dtype: torch.dtype
    sums: Mapping[str, TensorSum]
    prefixes: int


@runtime_checkable
class ProvingPolicy(Protocol):
    """A policy that tells what weights it holds."""

    def arrival(self) -> Arrival: ...


def tensor_sums(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, TensorSum]:
    """The checksum of each tensor, cast to `dtype` first, so that both sides hash the same bytes."""
    return {name: digest(tensor, dtype) for name, tensor in state.items()}


def check_arrival(state: Mapping[str, Tensor], version: int, found: Arrival) -> None:
    """Compare what was sent with what an engine holds.

    Args:
        state: the trainer's weights.
        version: under which they were sent.
        found: asked of the engine after the sync.

    Raises:
        ArrivalError: another version, a tensor that is missing, empty, swapped with another or of other numbers, or
            prefixes left in the cache.
    """
    if found.version != version:
        raise ArrivalError(
            f"the engine samples with weights of version {found.version}; version {version} was sent: the sync did not "
            "happen; start the engine anew"
        )
    wanted = tensor_sums(state, found.dtype)
    fault = next((told for name in wanted if (told := _fault(name, wanted, found.sums))), None)
    if fault:
        raise ArrivalError(f"weights of version {version} did not arrive: {fault}; start the engine anew and resume")
    if found.prefixes:
        raise ArrivalError(
            f"weights of version {version} arrived, but {found.prefixes} cached prefixes of older weights were kept; "
            "reset the engine's prefix cache after each sync"
        )


def check_canary(wanted: Sequence[float], found: Sequence[float], *, tolerance: float) -> float:
    """Compare log-probabilities of the same tokens on both sides, after every tensor was seen to arrive.

    Args:
        wanted: the trainer's.
        found: the engine's.
        tolerance: mean difference that is rounding.

    Returns:
        The mean difference.

    Raises:
        ArrivalError: a larger difference, or another number of tokens.
    """
    if len(wanted) != len(found) or not wanted:
        raise ArrivalError(f"the engine scored {len(found)} tokens of the canary; wanted {len(wanted)}")
    difference = fmean(abs(ours - theirs) for ours, theirs in zip(wanted, found, strict=True))
    if not difference <= tolerance:
        raise ArrivalError(
            f"log-probabilities of the canary differ by {difference:.4f} on average, more than {tolerance:g}, though "
            "each tensor arrived: the engine samples with a stale copy of one, such as the packed lm_head.weight of a "
            "model with tied embeddings; have it packed anew after each sync"
        )
    return difference


def _fault(name: str, wanted: Mapping[str, TensorSum], found: Mapping[str, TensorSum]) -> str | None:
    """What is wrong with one tensor."""
    if name not in found:
        return f"the tensor {name} is missing"
    theirs = found[name]
    if 0 in theirs.shape and 0 not in wanted[name].shape:
        return f"the tensor {name} has size zero, {theirs.shape}; wanted {wanted[name].shape}"
    if theirs.shape != wanted[name].shape:
        return f"the tensor {name} is {theirs.shape}; wanted {wanted[name].shape}"
    if theirs == wanted[name]:
        return None
    other = next((key for key, value in wanted.items() if key != name and value == theirs), None)
    if other is not None:
        return f"the tensor {name} holds the numbers of {other}: the names were swapped"
    return f"the tensor {name} holds other numbers: it is stale or damaged"
