"""Gate 7, goal by goal: none is met by what has nothing to do with it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from spade_environments.faults import EnvironmentFault
from spade_environments.types import Action, Reply, ToolCall

from .findings import Rejection, shown
from .plays import Slot, scripted
from .probes import random_arguments, tokens
from .trial import Trial, by_goal
from .values import gold_values

__all__ = ["check_lax_goals"]

SEEDS = 5
ENOUGH = 3
_JUDGED = ("state", "called", "replied")
_DONE = Reply(text="OK, it is done.")
_ADVICE = "Let its check ask for what its instruction names, and for nothing less."


async def check_lax_goals(trial: Trial) -> None:
    """Try each goal with what meets it in another instance, and with tools that its solution does not use.

    Raises:
        Rejection: a goal that is met by either on every seed tried.
    """
    foreign: dict[int, list[bool]] = {}
    unrelated: dict[int, list[bool]] = {}
    told: dict[int, str] = {}
    for seed, owner in zip(trial.seeds[:SEEDS], trial.seeds[1:], strict=False):
        own, others = by_goal(trial.gold[seed]), by_goal(trial.gold[owner])
        for number, part in enumerate(own):
            before = tuple(action for earlier in own[:number] for action in earlier)
            if len(own) == len(others) and part != others[number]:
                await _note(trial, seed, before, others[number], foreign.setdefault(number, []))
            calls = _unrelated(trial, seed, part)
            if calls:
                told.setdefault(number, f"seed {seed}: {', '.join(map(shown, calls))}")
                await _note(trial, seed, before, (*calls, _DONE), unrelated.setdefault(number, []))
    for number, results in unrelated.items():
        if len(results) >= min(ENOUGH, len(trial.seeds) - 1) and all(results):
            evidence = f"goal {number + 1} is met by calls that its solution does not make ({told[number][:200]})"
            raise Rejection(evidence, _ADVICE)
    for number, results in foreign.items():
        if len(results) >= min(ENOUGH, len(trial.seeds) - 1) and all(results):
            meant = ", ".join(map(shown, by_goal(trial.gold[trial.seeds[1]])[number]))[:200]
            raise Rejection(
                f"goal {number + 1} of seed {trial.seeds[0]} is met by what meets another one: {meant}", _ADVICE
            )


def _unrelated(trial: Trial, seed: int, part: Sequence[Action]) -> tuple[Action, ...]:
    """One call of each tool that takes an argument and stands nowhere in a part of the solution.

    Its arguments are values seen that the part does not name: a tool that empties or lists everything may well be
    another way to a goal, and so may one that is told what the goal is about.
    """
    used = {action.name for action in part if isinstance(action, ToolCall)}
    named = {token for value in gold_values(tuple(part)) for token in tokens(value)}
    seen = [token for token in tokens(*trial.gold_plays[seed].texts) if token not in named]
    rng = random.Random(f"{trial.spec.id}:{seed}:unrelated")
    return tuple(
        ToolCall(name=tool.name, arguments=random_arguments(tool, seen, rng))
        for tool in trial.declared.tools
        if tool.name not in used and tool.parameters.get("required")
    )


async def _note(trial: Trial, seed: int, before: Sequence[Action], part: Sequence[Action], results: list[bool]) -> None:
    """Whether the goal at hand is met by `part`; nothing where it is of another kind, or where a step faults."""
    script = (*before, *part)
    try:
        play = await trial.children.play(Slot.GOLD, seed, scripted(script), limit=len(script))
    except EnvironmentFault as fault:
        trial.keep_step_fault(fault)
        return
    info = play.steps[-1].result.info
    if len(play.steps) == len(script) and info.get("kind") in _JUDGED:
        results.append(bool(info.get("met")))
