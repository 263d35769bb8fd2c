"""Programs and plays as token sequences to imitate, rendered exactly as they will be sampled."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from spade_agents.designer.prompts import render_prompt
from spade_agents.designer.requests import DesignRequest, HintRequest, MemorySeed
from spade_agents.designer.summary import summarise
from spade_agents.messages import Message
from spade_agents.nano.demonstrate import Demonstration, Slips, demonstrate
from spade_agents.nano.grammar.compose import KNOWN_SHAPES, compose
from spade_agents.nano.grammar.documents import Document, Vocabulary, write_document
from spade_agents.nano.grammar.program import Program
from spade_agents.rendering import HermesRenderer
from spade_agents.training.samples import SupervisedSample
from spade_environments import TOOL_SKILLS
from spade_environments.certificate.novelty import fingerprint

__all__ = [
    "Mixture",
    "Warmup",
    "design_sample",
    "hint_sample",
    "is_held_out",
    "play_sample",
    "program_examples",
    "program_samples",
    "warm_program",
]

HELD_OUT_SHARE = 8
"""One structure in so many is held out of the warm-up, by its fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """What is imitated of each program.

    Attributes:
        plays: plays of each program, each on its own seed.
        hinted: share of them that see the hint.
        hints: chance that writing the hint is imitated.
        slips: how often the demonstrator errs.
    """

    plays: int = 3
    hinted: float = 0.3
    hints: float = 0.3
    slips: Slips = field(default_factory=Slips)


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """A program of the warm-up with the document that it was written for."""

    program: Program
    document: Document
    fingerprint: str


def is_held_out(mark: str) -> bool:
    """Whether a structure, by the hex fingerprint of its normalised syntax tree, stays out of the warm-up."""
    return int(mark[:8], 16) % HELD_OUT_SHARE == 0


def warm_program(
    rng: random.Random,
    *,
    vocabulary: Vocabulary = "warm",
    held_out: bool = False,
    shapes: tuple[str, ...] = KNOWN_SHAPES,
) -> Warmup:
    """Draw a program on one side of the line between warm-up and held-out structures."""

    def wanted(source: str) -> bool:
        return shapes != KNOWN_SHAPES or is_held_out(fingerprint(source)) == held_out

    document = write_document(rng, vocabulary)
    program = compose(rng, document, rng.choice(TOOL_SKILLS), shapes=shapes, wanted=wanted)
    return Warmup(program=program, document=document, fingerprint=fingerprint(program.source))


def design_sample(renderer: HermesRenderer, warmup: Warmup, memory: Sequence[Program]) -> SupervisedSample:
    """The designer writes the program; `memory` are earlier ones shown to it."""
    seeds = tuple(MemorySeed(summary=summarise(p.source), source=p.source, win_rate=0.5, regret=0.0) for p in memory)
    request = DesignRequest(skill=warmup.program.skill, document=warmup.document.text, seeds=seeds)
    written = Message(role="assistant", content=f"```python\n{warmup.program.source}```")
    return _sample(renderer, (*render_prompt(request, style="compact"), written))


def hint_sample(renderer: HermesRenderer, program: Program) -> SupervisedSample:
    """The hint writer reads the program and writes its hint."""
    written = Message(role="assistant", content=program.hint)
    return _sample(renderer, (*render_prompt(HintRequest(source=program.source), style="compact"), written))


def play_sample(renderer: HermesRenderer, play: Demonstration) -> SupervisedSample:
    """A whole play; the tokens of every assistant message are imitated, slips included."""
    ids, mask = renderer.render_transcript(play.messages, play.tools)
    return SupervisedSample(token_ids=tuple(ids), mask=tuple(mask))


def program_samples(
    renderer: HermesRenderer, warmup: Warmup, memory: Sequence[Program], rng: random.Random, mixture: Mixture
) -> list[SupervisedSample]:
    """Everything that is imitated of one program."""
    return [made() for made in program_examples(renderer, warmup, memory, rng, mixture)]


def program_examples(
    renderer: HermesRenderer, warmup: Warmup, memory: Sequence[Program], rng: random.Random, mixture: Mixture
) -> list[Callable[[], SupervisedSample]]:
    """What `program_samples` gives, each rendered only when it is asked for; all that is random is drawn here."""
    program = warmup.program
    examples: list[Callable[[], SupervisedSample]] = [partial(design_sample, renderer, warmup, memory)]
    if rng.random() < mixture.hints:
        examples.append(partial(hint_sample, renderer, program))
    for _ in range(mixture.plays):
        hint = program.hint if rng.random() < mixture.hinted else None
        play = demonstrate(program.source, rng.randrange(1_000_000), rng, hint=hint, slips=mixture.slips)
        examples.append(partial(play_sample, renderer, play))
    return examples


def _sample(renderer: HermesRenderer, messages: Sequence[Message]) -> SupervisedSample:
    ids, mask = renderer.render_transcript(messages)
    return SupervisedSample(token_ids=tuple(ids), mask=tuple(mask))
