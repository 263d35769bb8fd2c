"""What a solution gives away, and whether a text holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from spade_environments.inside.contract import carries
from spade_environments.types import Action, Reply

from .plays import Transcript
from .probes import tokens

__all__ = ["gold_values", "holds", "instructions"]


def instructions(play: Transcript) -> list[str]:
    """What the user says in a play: the first observation and what comes back for each Reply."""
    observations = [play.first, *(step.result.observation for step in play.steps)]
    return [observation.text for observation in observations if observation.role == "user"]


def holds(text: str, value: str) -> bool:
    """Whether `value` stands in `text` as a whole token; numbers are compared as numbers."""
    try:
        number = float(value)
    except ValueError:
        return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None
    # `carries` reads at most 300 characters.
    return any(carries(token, number) for token in tokens(text) if len(token) <= 40)


def gold_values(actions: tuple[Action, ...]) -> Iterator[str]:
    """What gold gives away: arguments, whole replies, and the numbers and identifiers inside either."""
    for action in actions:
        texts = [action.text] if isinstance(action, Reply) else list(_leaves(action.arguments))
        for text in texts:
            if text.strip():
                yield text.strip()
            yield from (token for token in tokens(text) if any(map(str.isdigit, token)))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
