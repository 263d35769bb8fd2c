"""Probe actions: plausible ones built from tool schemas and from what stands in the observations."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from spade_environments.types import Action, Reply, ToolCall, ToolSpec

from .plays import Player, Transcript

__all__ = ["all_tokens", "prober", "random_arguments", "sole_argument", "text_action", "tokens"]

_WORDS = ("", "help", "yes", "1", "0", "look", "a", "-1 -1")
_TOKEN = re.compile(r"[^\W_](?:[\w.:/@-]*\w)?|-?\d+(?:\.\d+)?")


def all_tokens(text: str) -> list[str]:
    """Words, numbers and identifiers in order of appearance, as often as they appear."""
    return _TOKEN.findall(text)


def tokens(*texts: str) -> list[str]:
    """Distinct words, numbers and identifiers in order of appearance."""
    return list(dict.fromkeys(token for text in texts for token in all_tokens(text)))


def sole_argument(tool: ToolSpec) -> str:
    """The name of a TextEnv's one argument."""
    return str(next(iter(tool.parameters["properties"])))


def text_action(tool: ToolSpec, text: str) -> ToolCall:
    """A TextEnv's action."""
    return ToolCall(name=tool.name, arguments={sole_argument(tool): text})


def prober(tools: Sequence[ToolSpec], *, text: bool, rng: random.Random) -> Player:
    """A player that tries each tool in turn and then replies; in a TextEnv, a few words and tokens of what it read."""

    def player(play: Transcript) -> Action | None:
        seen = tokens(*play.texts[-2:])
        position = len(play.steps)
        if text:
            word = _WORDS[position // 2 % len(_WORDS)] if position % 2 == 0 or not seen else rng.choice(seen)
            return text_action(tools[0], word)
        if position % (len(tools) + 1) == len(tools):
            return Reply(text=rng.choice(seen) if seen else "ok")
        tool = tools[position % (len(tools) + 1)]
        return ToolCall(name=tool.name, arguments=random_arguments(tool, seen, rng))

    return player


def random_arguments(tool: ToolSpec, seen: Sequence[str], rng: random.Random) -> dict[str, Any]:
    """Arguments that fit the tool's schema, with values among `seen` where the types allow it."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = set(tool.parameters.get("required", ()))
    chosen = [name for name in properties if name in required or rng.random() < 0.5]
    return {name: _value(properties[name], seen, rng) for name in chosen}


def _value(schema: Mapping[str, Any], seen: Sequence[str], rng: random.Random) -> Any:
    if schema.get("enum"):
        return rng.choice(list(schema["enum"]))
    if schema.get("anyOf"):
        return _value(rng.choice(list(schema["anyOf"])), seen, rng)
    match schema.get("type"):
        case "integer":
            return rng.choice([int(token) for token in seen if re.fullmatch(r"-?\d{1,9}", token)] or [0, 1, 2, 10])
        case "number":
            numbers = [float(token) for token in seen if re.fullmatch(r"-?\d{1,9}(\.\d{1,9})?", token)]
            return rng.choice(numbers or [0.0, 1.0, 2.5])
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_value(schema["items"], seen, rng)] if "items" in schema else []
        case "object" | "null" as kind:
            return {} if kind == "object" else None
        case _:
            return rng.choice(list(seen) or ["a"])
