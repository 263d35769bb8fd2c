"""Supervised replay: warm-up samples mixed into self-play updates, the control's too, so that no role is forgotten."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from spade_agents.nano.examples import Mixture, program_examples, warm_program
from spade_agents.policy.tokenizer import load_tokenizer
from spade_agents.rendering import HermesRenderer
from spade_agents.training.samples import SupervisedSample

__all__ = ["open_replay"]


def open_replay(folder: Path) -> Callable[[int, int], tuple[SupervisedSample, ...]]:
    """`replay(seed, count)`: `count` samples of the warm-up's mixture, a function of its arguments and the tokenizer.

    Args:
        folder: the model that is trained; its tokenizer renders the samples.

    Raises:
        CheckpointError: the folder has no readable tokenizer.
    """
    renderer = HermesRenderer(load_tokenizer(folder), style="compact")

    def replay(seed: int, count: int) -> tuple[SupervisedSample, ...]:
        rng = random.Random(f"nano replay {seed}")
        samples: list[SupervisedSample] = []
        while len(samples) < count:
            made = program_examples(renderer, warm_program(rng), (), rng, Mixture())
            samples.append(rng.choice(made)())
        return tuple(samples)

    return replay
