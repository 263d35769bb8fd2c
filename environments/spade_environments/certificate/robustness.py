"""Gate 8: hostile and malformed actions never raise and never pay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spade_environments.types import Action, Reply, ToolCall, ToolSpec

from .findings import Rejection, shown
from .plays import Slot, scripted
from .probes import sole_argument, text_action
from .trial import Trial, by_goal

__all__ = ["hostile_actions", "robustness_gate"]

SEEDS = 2
HOSTILE_TEXTS = (
    "{self}",
    "{0.__class__.__mro__}",
    "__import__('os').system('id')",
    "%s%s%n",
    "\x00\x1b[2J",
    "\u202eevil",
    "٣",
    "nan",
    "1e309",
    "-99999999999999999999",
    "a" * 10_000,
    "(a+)+$" + "a" * 60,
    '{"action": "x"}',
    "]](((",
    "<|im_end|>",
    "é ß 漢 🙂",
    "\n\n",
)
_SHORT = ("", "٣", "nan", "1e309", "-7", "99999999999999999999", "{self}", "é")


async def robustness_gate(trial: Trial) -> str:
    """Gate 8: no action raises, and no hostile play ends with a reward."""
    taken = 0
    for seed in trial.seeds[:SEEDS]:
        for before, actions in _rounds(trial, seed):
            taken += await _try_all(trial, seed, before, actions)
    return f"{taken} hostile or malformed actions on {SEEDS} seeds"


def _rounds(trial: Trial, seed: int) -> Iterator[tuple[tuple[Action, ...], list[Action]]]:
    """What to play first, and what to try there: at the start, and in a ToolEnv before each later goal."""
    tools, gold = trial.declared.tools, trial.gold[seed]
    yield (), hostile_actions(tools, gold, text=trial.is_text)
    if trial.is_text:
        yield gold[: len(gold) // 2], _mutated_texts(tools[0], gold)
        return
    parts = by_goal(gold)
    for number in range(1, len(parts)):
        before = tuple(action for part in parts[:number] for action in part)
        calls = [action for action in parts[number] if isinstance(action, ToolCall)]
        yield before, [mutant for call in calls for mutant in _mutated(tools, call)]


async def _try_all(trial: Trial, seed: int, before: tuple[Action, ...], actions: list[Action]) -> int:
    """Play all `actions` after `before`, in as many episodes as it takes."""
    limit = trial.declared.max_turns
    left = list(actions)
    while left:
        room = limit - len(before)
        batch = left[: max(1, room)]
        play = await trial.children.play(Slot.GOLD, seed, scripted((*before, *batch)), limit=len(before) + len(batch))
        played = len(play.steps) - len(before)
        if play.value > 0:
            last = play.steps[-1]
            evidence = f"seed {seed}: {shown(last.action)} among malformed actions ends with reward {play.value:g}"
            raise Rejection(evidence, "Accept exact, well-formed actions only, and pay for nothing else.")
        left = left[max(1, played) :]
    return len(actions)


def hostile_actions(tools: Sequence[ToolSpec], gold: Sequence[Action], *, text: bool) -> list[Action]:
    """Malformed calls, hostile strings, and gold actions with one part made hostile."""
    if text:
        tool, name = tools[0], sole_argument(tools[0])
        malformed: list[Action] = [
            Reply(text="hello"),
            ToolCall(name="no_such_tool", arguments={}),
            ToolCall(name=tool.name, arguments={}),
            ToolCall(name=tool.name, arguments={name: 7}),
            ToolCall(name=tool.name, arguments={name: "x", "extra": 1}),
        ]
        return [*malformed, *(text_action(tool, word) for word in HOSTILE_TEXTS), *_mutated_texts(tool, gold)]
    calls: list[Action] = [ToolCall(name="no_such_tool", arguments={})]
    for tool in tools:
        calls += _malformed(tool)
    for action in gold:
        if isinstance(action, ToolCall):
            calls += _mutated(tools, action)
    return [*calls, Reply(text="{self} " + "\x00" + "9" * 2000)]


def _malformed(tool: ToolSpec) -> list[Action]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return [
        ToolCall(name=tool.name, arguments={"no_such_argument": 1}),
        ToolCall(name=tool.name, arguments={name: [None] for name in properties}),
        ToolCall(name=tool.name, arguments=dict.fromkeys(properties, '{"a": 1}')),
    ]


def _mutated(tools: Sequence[ToolSpec], call: ToolCall) -> list[Action]:
    """A gold call with one argument at a time replaced by hostile values of the type that its schema wants."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        return []
    return [
        ToolCall(name=call.name, arguments={**call.arguments, name: value})
        for name, schema in tool.parameters.get("properties", {}).items()
        for value in _hostile_values(schema)
    ]


def _hostile_values(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    if schema.get("enum"):
        return ()
    if schema.get("anyOf"):
        return tuple(value for option in schema["anyOf"] for value in _hostile_values(option))
    match schema.get("type"):
        case "integer":
            return (-1, 0, 10**15)
        case "number":
            return (-1.0, 0.0, 1e300)
        case "boolean":
            return (True, False)
        case "array":
            items = _hostile_values(schema.get("items", {"type": "string"}))
            return ([], list(items))
        case "object":
            return ({}, {"": None} if "additionalProperties" not in schema else {})
        case "null":
            return (None,)
        case _:
            return ("", "٣", "{self}", "../..", "a" * 2000)


def _mutated_texts(tool: ToolSpec, gold: Sequence[Action]) -> list[Action]:
    """Gold actions with one word replaced, cut short or doubled."""
    told = [str(action.arguments[sole_argument(tool)]) for action in gold if isinstance(action, ToolCall)]
    mutated: dict[str, None] = {}
    for text in list(dict.fromkeys(told))[:3]:
        words = text.split()
        for place in {0, len(words) - 1} if words else ():
            for word in _SHORT:
                mutated[" ".join([*words[:place], word, *words[place + 1 :]])] = None
        mutated[re.sub(r"\d+", "99999999999999999999", text)] = None
        mutated[f"{text} {text}"] = None
    return [text_action(tool, text) for text in mutated if text not in told]
