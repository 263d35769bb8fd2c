"""The learning rate of each update: a function of the update's number alone, so that a resumed run has the same one."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from typing import Any, Protocol

from spade_agents.training.config import OptimizerConfig, RateDecay

__all__ = ["learning_rate", "set_learning_rate"]


class Optimizer(Protocol):
    """What a rate is set on: torch's optimisers, and DeepSpeed's around them."""

    @property
    def param_groups(self) -> Sequence[MutableMapping[str, Any]]: ...


def learning_rate(config: OptimizerConfig, update: int) -> float:
    """The rate of an update, counted from 0: all of its optimiser steps take it.

    It rises linearly over `warmup` updates (the first of four takes a quarter), then stays, or falls on a line or half
    a cosine from the end of the warm-up to update `updates`, where it is `final` of the full rate, and stays there.
    """
    schedule = config.schedule
    if update < schedule.warmup:
        return config.learning_rate * (update + 1) / schedule.warmup
    if schedule.decay is RateDecay.CONSTANT:
        return config.learning_rate
    done = min((update - schedule.warmup) / (schedule.updates - schedule.warmup), 1.0)
    left = 1.0 - done if schedule.decay is RateDecay.LINEAR else (1.0 + math.cos(math.pi * done)) / 2.0
    return config.learning_rate * (schedule.final + (1.0 - schedule.final) * left)


def set_learning_rate(optimizer: Optimizer, config: OptimizerConfig, update: int) -> None:
    """Let an optimiser's next steps be those of `update`."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, update)
