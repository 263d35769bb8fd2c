"""Gate 8: hostile and malformed actions never raise, and garbage never pays."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spade_environments.types import Action, Reply, ToolCall, ToolSpec

from .findings import Rejection, shown
from .gates import check_same
from .players import random_player
from .plays import Slot, scripted
from .probes import sole_argument, text_action
from .trial import Trial, by_goal

__all__ = ["garbage", "robustness_gate"]

SEEDS = 2
_FAILED = 2
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
    "²",
    "-1",
    "9" * 5000,
    "[" * 3000,
    "-" * 3000 + "1",
    "a" * 60 + "!",
    "1 " * 100 + "!",
    "<|im_end|>",
    "é ß 漢 🙂",
    "\n\n",
)
REPLIES = ("I cannot say.", "-7 nan 1e309 ²", "٣ {self} é 漢", "9" * 2000)
_SHORT = ("", "٣", "²", "nan", "1e309", "-7", "99999999999999999999", "{self}", "é")


@dataclass(frozen=True, slots=True)
class _Round:
    """What to play first, what to try there, and whether a win by it would be undeserved."""

    before: tuple[Action, ...]
    actions: tuple[Action, ...]
    is_garbage: bool


async def robustness_gate(trial: Trial) -> str:
    """Gate 8: no action raises, and garbage never pays."""
    if trial.step_fault is not None:
        raise trial.step_fault
    taken = 0
    for seed in trial.seeds[:SEEDS]:
        for attempt in _rounds(trial, seed):
            await _try_all(trial, seed, attempt)
            taken += len(attempt.actions)
    # Much has been played in this child by now, and nothing of it may show.
    for seed, play in (await trial.replay_gold(Slot.GOLD, trial.seeds[:SEEDS])).items():
        check_same(trial.gold_plays[seed], play, "gold play, after many other episodes,")
    await _check_fresh(trial)
    return f"{taken} hostile or malformed actions on {min(SEEDS, len(trial.seeds))} seeds"


async def _check_fresh(trial: Trial) -> None:
    """Wrong and random actions come to the same in a fresh child of the other zygote, as each play that counts has."""
    seed, other = trial.seeds[:2]
    tools, limit = trial.declared.tools, trial.declared.max_turns
    chance = random_player(tools, text=trial.is_text, rng=random.Random(f"{trial.spec.id}:{seed}:fresh"))
    wrong = [step.action for step in trial.odd_steps[seed][-limit:]]
    for player in (scripted(trial.gold[other]), scripted(wrong), chance):
        play = await trial.children.play(Slot.GOLD, seed, player, limit=limit)
        await trial.children.drop(Slot.OTHER)
        again = await trial.children.play(Slot.OTHER, seed, scripted(play.actions), limit=len(play.steps))
        check_same(play, again, "the same play in a fresh process,")


def _rounds(trial: Trial, seed: int) -> Iterator[_Round]:
    """Garbage at the start; gold actions with a hostile part at the start and later."""
    tools, gold = trial.declared.tools, trial.gold[seed]
    yield _Round((), garbage(tools, text=trial.is_text), True)
    if trial.is_text:
        mutated = _mutated_texts(tools[0], gold)
        yield _Round((), mutated, False)
        yield _Round(gold[: len(gold) // 2], mutated, False)
        return
    parts = by_goal(gold)
    for number, part in enumerate(parts):
        before = tuple(action for earlier in parts[:number] for action in earlier)
        calls = [action for action in part if isinstance(action, ToolCall)]
        yield _Round(before, tuple(mutant for call in calls for mutant in _mutated(tools, call)), False)
        for text in REPLIES:  # each may end the episode, and none ends it with a fault
            yield _Round(before, (Reply(text=text),), False)
        for call in calls[:_FAILED]:  # a check may read the result of a call that failed
            yield _Round(before, (*_mutated(tools, call)[:1], part[-1]), False)
            yield _Round(before, (_failing(tools, call), part[-1]), False)


async def _try_all(trial: Trial, seed: int, attempt: _Round) -> None:
    """Play all actions of a round, in as many episodes as it takes."""
    room = max(1, trial.declared.max_turns - len(attempt.before))
    left = attempt.actions
    while left:
        script = (*attempt.before, *left[:room])
        play = await trial.children.play(Slot.GOLD, seed, scripted(script), limit=len(script))
        if attempt.is_garbage and play.value > 0:
            evidence = f"seed {seed}: {shown(play.steps[-1].action)} ends the episode with reward {play.value:g}"
            raise Rejection(evidence, "Accept well-formed actions only, and pay for nothing else.")
        trial.odd_steps.setdefault(seed, []).extend(play.steps[len(attempt.before) :])
        left = left[max(1, len(play.steps) - len(attempt.before)) :]


def garbage(tools: Sequence[ToolSpec], *, text: bool) -> tuple[Action, ...]:
    """Malformed calls and hostile strings: nothing here may ever be paid."""
    malformed = [action for tool in tools for action in _malformed(tool)]
    unknown = ToolCall(name="no_such_tool", arguments={})
    if text:
        return (Reply(text="hello"), unknown, *malformed, *(text_action(tools[0], word) for word in HOSTILE_TEXTS))
    return (unknown, *malformed, Reply(text="{self} \x00 <|im_end|> " + "9" * 2000))


def _malformed(tool: ToolSpec) -> list[Action]:
    """Calls that no schema lets through: an unknown argument, a missing one, one of a wrong type."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    calls: list[Action] = [ToolCall(name=tool.name, arguments={"no_such_argument": 1})]
    if tool.parameters.get("required"):
        calls.append(ToolCall(name=tool.name, arguments={}))
    wrong = {name: _misfit(schema) for name, schema in properties.items()}
    calls += [ToolCall(name=tool.name, arguments={name: value}) for name, value in wrong.items() if value is not None]
    return calls


def _misfit(schema: Mapping[str, Any]) -> Any:
    """A value that the schema refuses; `None` where it takes all of those tried."""
    import jsonschema  # slow to import, and most commands never come here

    validator = jsonschema.Draft202012Validator(dict(schema))
    tried: tuple[Any, ...] = (7, '{"a": 1}', [[]], {"a": [1]})
    return next((value for value in tried if not validator.is_valid(value)), None)


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


def _failing(tools: Sequence[ToolSpec], call: ToolCall) -> Action:
    """A gold call whose strings name nothing."""
    schemas: Mapping[str, Any] = next(
        (tool.parameters.get("properties", {}) for tool in tools if tool.name == call.name), {}
    )
    changed = {
        name: "no such thing"
        for name, value in call.arguments.items()
        if isinstance(value, str) and not schemas.get(name, {}).get("enum")
    }
    return ToolCall(name=call.name, arguments={**call.arguments, **changed})


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


def _mutated_texts(tool: ToolSpec, gold: Sequence[Action]) -> tuple[Action, ...]:
    """Gold actions with one word or all numbers replaced."""
    told = [str(action.arguments[sole_argument(tool)]) for action in gold if isinstance(action, ToolCall)]
    mutated: dict[str, None] = {}
    for text in list(dict.fromkeys(told))[:3]:
        words = text.split()
        for place in {0, len(words) - 1} if words else ():
            for word in _SHORT:
                mutated[" ".join([*words[:place], word, *words[place + 1 :]])] = None
        mutated[re.sub(r"\d+", "99999999999999999999", text)] = None
    return tuple(text_action(tool, text) for text in mutated if text not in told)
