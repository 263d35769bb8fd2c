"""Supervised replay: fresh samples of the warm-up's own stream, so that self-play does not unlearn the language."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from spade_agents.nano.examples import Mixture, program_samples, warm_program
from spade_agents.policy.tokenizer import load_tokenizer
from spade_agents.rendering import HermesRenderer
from spade_agents.training.samples import SupervisedSample

__all__ = ["open_replay"]

_OWN = "replay"
"""Keeps these draws apart from the warm-up's: the same distribution, other programs."""


def open_replay(folder: Path) -> Callable[[int, int], tuple[SupervisedSample, ...]]:
    """Replay for a model folder: from a seed and a count to samples, the same ones for the same arguments."""
    renderer = HermesRenderer(load_tokenizer(folder), style="compact")

    def replay(seed: int, count: int) -> tuple[SupervisedSample, ...]:
        rng = random.Random(f"{_OWN} {seed}")
        samples: list[SupervisedSample] = []
        while len(samples) < count:
            samples += program_samples(renderer, warm_program(rng), (), rng, Mixture())
        return tuple(samples[:count])

    return replay
