"""Designs drawn from a designer as it stands, one attempt a request, and how diverse they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from spade_agents.designer.parse import parse_design
from spade_agents.designer.prompts import render_prompt
from spade_agents.designer.requests import DesignRequest
from spade_agents.diversity import Diversity, measure
from spade_agents.messages import Conversation
from spade_agents.nano.family import family
from spade_agents.policy import open_policy
from spade_agents.seeds import derive_seed
from spade_agents.selfplay import RunSettings
from spade_environments.certificate import fingerprint

__all__ = ["diversity_of", "drawn_designs"]


async def drawn_designs(
    target: str, requests: Sequence[DesignRequest], settings: RunSettings, *, purpose: str
) -> list[str | None]:
    """The program of each request, or `None` where there is none.

    Args:
        target: the designer, as `open_policy` takes it.
        requests: asked all at once.
        settings: of a run, whose seed, prompts and sampling are taken.
        purpose: part of every seed, so that two measures of a run are not of the same draws.
    """
    call, root = settings.designer.call, settings.run.seed
    async with open_policy(target) as policy:
        completions = await asyncio.gather(
            *(
                policy.complete(
                    Conversation(messages=render_prompt(request, style=call.style)),
                    call.sampling,
                    seed=derive_seed(root, purpose, number),
                )
                for number, request in enumerate(requests)
            )
        )
    return [parse_design(completion).source for completion in completions]


def diversity_of(sources: Sequence[str]) -> Diversity:
    """Of the programs that can be read; one that cannot is its own kind of failure and counts as no program."""
    marks: list[tuple[str, str, str]] = []
    for source in sources:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            marks.append((source, fingerprint(source), family(source)))
    return measure(*(list(column) for column in zip(*marks, strict=True))) if marks else measure([], [], [])
