"""Players that understand nothing: silent, talkative, random, busy, repeating and dumping ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

from spade_environments.types import Action, Reply, ToolCall, ToolSpec

from .plays import Player, Transcript
from .probes import random_arguments, text_action, tokens
from .values import instructions

__all__ = ["busy_player", "dumper", "random_player", "repeating", "silent", "talkative", "tool_repeater"]

_REPLY_LIMIT = 300
_DUMP_VALUES = 12
_DONE = Reply(text="OK, it is done.")


def repeating(action: Action) -> Player:
    """The same action at every turn."""
    return lambda play: action


def talkative(play: Transcript) -> Action:
    """Says that all is done, at every turn."""
    return _DONE


def busy_player(tools: Sequence[ToolSpec], rng: random.Random) -> Player:
    """Makes one call of some tool with values seen, says that all is done, and so on."""

    def player(play: Transcript) -> Action:
        if play.steps and isinstance(play.steps[-1].action, ToolCall):
            return _DONE
        tool = rng.choice(list(tools))
        return ToolCall(name=tool.name, arguments=random_arguments(tool, tokens(*play.texts), rng))

    return player


def tool_repeater(tool: ToolSpec) -> Player:
    """Calls one tool that needs no argument, says that all is done, and so on."""

    def player(play: Transcript) -> Action:
        called = play.steps and isinstance(play.steps[-1].action, ToolCall)
        return _DONE if called else ToolCall(name=tool.name, arguments={})

    return player


def silent(play: Transcript) -> Action:
    """Says nothing at every turn."""
    return Reply(text="")


def random_player(tools: Sequence[ToolSpec], *, text: bool, rng: random.Random) -> Player:
    """Values drawn from what was seen and from enums; in a ToolEnv, a random tool or now and then a reply."""

    def player(play: Transcript) -> Action:
        seen = tokens(*play.texts)
        if text:
            words = [rng.choice(seen or ["a"]) for _ in range(rng.choice((1, 1, 2)))]
            return text_action(tools[0], " ".join(words))
        if rng.random() < 0.25:
            return Reply(text=rng.choice(seen or [""]))
        tool = rng.choice(list(tools))
        return ToolCall(name=tool.name, arguments=random_arguments(tool, seen, rng))

    return player


def dumper(tools: Sequence[ToolSpec], *, text: bool, max_turns: int, cut: bool) -> Player:
    """Reads what it can and answers with every value seen, in order; `cut` keeps the reply within its limit."""

    def player(play: Transcript) -> Action:
        if text:
            return text_action(tools[0], " ".join(tokens(*play.texts)) if cut else play.texts[-1])
        results = [step.result.observation.text for step in play.steps if isinstance(step.action, ToolCall)]
        asked = instructions(play)[-1]
        replied = [number for number, step in enumerate(play.steps, 1) if isinstance(step.action, Reply)]
        since = len(play.steps) - max(replied, default=0)
        new = [call for call in _reads(tools, tokens(*play.texts)) if call not in play.actions]
        if not new or since >= max(1, (max_turns - max(replied, default=0)) // 2):
            told = " ".join(tokens(*results, asked))
            return Reply(text=told[:_REPLY_LIMIT] if cut else told)
        return new[0]

    return player


def _reads(tools: Sequence[ToolSpec], seen: Sequence[str]) -> list[ToolCall]:
    """Calls in a fixed order: each tool with one value after another, newest values first."""
    rng = random.Random(0)
    values = list(reversed(seen))[:_DUMP_VALUES] or ["a"]
    return [
        ToolCall(name=tool.name, arguments=random_arguments(tool, [value], rng))
        for value, tool in product(values, tools)
    ]
