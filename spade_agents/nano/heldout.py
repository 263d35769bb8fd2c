"""Held-out programs, generated from a fixed seed: known families in structures never imitated, and unseen families."""

from __future__ import annotations

import random
from functools import cache
from typing import Literal

from spade_agents.nano.examples import warm_program
from spade_agents.nano.grammar.compose import KNOWN_SHAPES, UNSEEN_SHAPES
from spade_environments import EnvironmentSpec

__all__ = ["HELD_OUT_SEEDS", "HeldOutPart", "heldout_specs"]

HeldOutPart = Literal["known", "unseen"]

HELD_OUT_SEEDS = (7001, 7002, 7003, 7004)
"""The instances that are played of each program."""

_SEED = "nano held out 1"


@cache
def heldout_specs(part: HeldOutPart, count: int = 100) -> tuple[EnvironmentSpec, ...]:
    """The first `count` held-out programs of a part, each with its hint.

    `known`: families of the warm-up, in structures that its fingerprint rule kept out of it, about words that neither
    the warm-up nor the shipped corpus uses (filled up with common ones where those are too few). `unseen`: first in
    first out, transfer, and find-then-change, which no warm-up program has.
    """
    rng = random.Random(f"{_SEED} {part}")
    shapes = KNOWN_SHAPES if part == "known" else UNSEEN_SHAPES
    found: dict[str, EnvironmentSpec] = {}
    while len(found) < count:
        warmup = warm_program(rng, vocabulary="held_out", held_out=True, shapes=shapes)
        program = warmup.program
        if warmup.fingerprint not in found:
            found[warmup.fingerprint] = EnvironmentSpec(
                name=f"heldout_{part}_{len(found):03d}",
                source=program.source,
                skill=program.skill,
                domain=program.domain,
                hint=program.hint,
                provenance={"kind": "nano_held_out", "part": part, "label": program.label},
            )
    return tuple(found.values())
