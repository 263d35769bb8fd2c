"""Gate 7: agents without understanding stay at the floor."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import product

from spade_environments.faults import EnvironmentFault
from spade_environments.types import Action, Reply, ToolCall, ToolSpec

from .findings import Rejection, is_ours, shown
from .plays import Player, Slot, Transcript, scripted
from .probes import random_arguments, text_action, tokens
from .trial import Trial, by_goal, seeds_of
from .types import Gate
from .values import instructions

__all__ = ["dumper", "floor_gate", "random_player", "silent"]

FRESH = 24
CANDIDATES = 12
HABITS = 32
LISTED = 1000
SCRIPTS = 3
_COMMON = ("yes", "no", "0", "1", "2", "a", "A", "true", "none")
_REPLY_LIMIT = 300
_DUMP_VALUES = 12

Play = Callable[[int], Awaitable[float]]


async def floor_gate(trial: Trial) -> str:
    """Gate 7: silent, random, repeating and dumping agents, a constant first action and a foreign script win little."""
    _check_depth(trial)
    agents = _agents(trial) | await _habits(trial)
    found = [await _check_agent(trial, name, make) for name, make in agents.items()]
    found.append(await _check_first_actions(trial))
    found.append(await _check_scripts(trial))
    if trial.step_fault is not None and Gate.ROBUSTNESS not in trial.settings.gates:
        raise trial.step_fault
    return "; ".join(found)


def _check_depth(trial: Trial) -> None:
    """A fully observed environment of several turns must take more than one action."""
    declared = trial.declared
    short = sum(len(trial.gold[seed]) == 1 for seed in trial.seeds)
    if declared.observability == "full" and declared.max_turns > 1 and short > len(trial.seeds) / 2:
        evidence = f"all is shown, and one action solves {short} of {len(trial.seeds)} instances of a game of turns"
        raise Rejection(evidence, "Make it need several actions, or set max_turns = 1.")


def _agents(trial: Trial) -> dict[str, Callable[[int], Player]]:
    """Players by name, each made anew for a seed."""
    text, tools, limit = trial.is_text, trial.declared.tools, trial.declared.max_turns

    def random_agent(number: int) -> Callable[[int], Player]:
        return lambda seed: random_player(tools, text=text, rng=random.Random(f"{trial.spec.id}:{seed}:{number}"))

    agents: dict[str, Callable[[int], Player]] = {} if text else {"silent": lambda seed: silent}
    agents |= {f"random {number + 1}": random_agent(number) for number in range(trial.settings.floor_plays)}
    agents["dump"] = lambda seed: dumper(tools, text=text, max_turns=limit, cut=seed % 2 == 0)
    if text:
        agents["every number"] = _repeating(text_action(tools[0], " ".join(map(str, range(LISTED)))))
    return agents


async def _habits(trial: Trial) -> dict[str, Callable[[int], Player]]:
    """One action again and again in a text game of turns: of the gold, and words of the task that win on one seed."""
    tool, limit = trial.declared.tools[0], trial.declared.max_turns
    if not trial.is_text or limit == 1:
        return {}
    seed = trial.seeds[0]
    words = [token for token in tokens(trial.probes[seed].first.text) if token.isalpha()][:HABITS]
    said = [text_action(tool, word) for word in words]
    won = [action for action in said if await _value(trial, seed, _repeating(action)(seed), limit) > 0]
    actions = _distinct([*_usual(trial, trial.seeds[:2]), *won])
    return {f"repeat {shown(action)}": _repeating(action) for action in actions}


def _repeating(action: Action) -> Callable[[int], Player]:
    return lambda seed: lambda play: action


def _usual(trial: Trial, seeds: Sequence[int]) -> list[Action]:
    """The most frequent action of each of these seeds' gold, distinct."""
    usual: list[Action] = []
    for seed in seeds:
        gold = trial.gold[seed]
        action = max(gold, key=gold.count)
        if action not in usual:
            usual.append(action)
    return usual


async def _check_agent(trial: Trial, name: str, make: Callable[[int], Player]) -> str:
    async def play(seed: int) -> float:
        return await _value(trial, seed, make(seed), trial.declared.max_turns)

    mean = await _mean_beyond_doubt(trial, play)
    if mean > trial.settings.floor:
        evidence = f"an agent that understands nothing ({name}) has a mean return of {mean:.2f}"
        raise Rejection(
            f"{evidence}; at most {trial.settings.floor:g}",
            "Make the goals depend on values that must be found out and on the right order of steps.",
        )
    return f"{name} {mean:.2f}"


async def _mean_beyond_doubt(trial: Trial, play: Play) -> float:
    """Mean return over the seeds; where it is over the floor, over fresh seeds instead, so that chance decides less."""
    mean = await _mean(play, trial.seeds)
    if mean > trial.settings.floor:
        mean = await _mean(play, seeds_of(trial.spec, FRESH, skip=trial.settings.seeds))
    return mean


async def _mean(play: Play, seeds: Sequence[int]) -> float:
    return sum([await play(seed) for seed in seeds]) / len(seeds)


async def _value(trial: Trial, seed: int, player: Player, limit: int) -> float:
    """The return of a play; a step that faults pays nothing here, and gate `robustness` is told."""
    try:
        return (await trial.children.play(Slot.GOLD, seed, player, limit=limit)).value
    except EnvironmentFault as fault:
        if is_ours(fault) or fault.phase != "step":
            raise
        trial.step_fault = trial.step_fault or fault
        return 0.0


async def _check_first_actions(trial: Trial) -> str:
    """No one action, tried first, wins on more than the floor's share of seeds."""
    best = 0.0
    for action in _first_actions(trial):

        async def play(seed: int, action: Action = action) -> float:
            return float(await _value(trial, seed, scripted([action]), 1) >= 1.0)

        share = await _mean_beyond_doubt(trial, play)
        if share > trial.settings.floor:
            evidence = f"{shown(action)}, tried first, wins on {share:.0%} of seeds"
            raise Rejection(evidence, "Let the answer differ more from seed to seed, or ask for more than a guess.")
        best = max(best, share)
    return f"best first action {best:.2f}"


def _first_actions(trial: Trial) -> list[Action]:
    if trial.is_text:
        tool = trial.declared.tools[0]
        gold = [trial.gold[seed][0] for seed in trial.seeds]
        return list(_distinct([*gold, *(text_action(tool, word) for word in _COMMON)]))[:CANDIDATES]
    if any(len(by_goal(trial.gold[seed])) > 1 for seed in trial.seeds):
        return []  # No single action can end an episode of several goals with a win.
    replies = [by_goal(trial.gold[seed])[0][-1] for seed in trial.seeds]
    return list(_distinct([*replies, *(Reply(text=word) for word in _COMMON)]))[:CANDIDATES]


def _distinct(actions: Sequence[Action]) -> list[Action]:
    kept: list[Action] = []
    for action in actions:
        if action not in kept:
            kept.append(action)
    return kept


async def _check_scripts(trial: Trial) -> str:
    """The gold of one seed does not win most others."""
    best = 0.0
    for owner in trial.seeds[:SCRIPTS]:
        others = [seed for seed in trial.seeds if seed != owner]
        gold = trial.gold[owner]
        wins = [await _value(trial, seed, scripted(gold), len(gold)) >= 1.0 for seed in others]
        share = sum(wins) / len(wins)
        if share > 0.5:
            evidence = (
                f"the solution of seed {owner} ({', '.join(map(shown, gold))[:200]}) wins on {share:.0%} of others"
            )
            raise Rejection(evidence, "Draw from self.rng what the solution depends on.")
        best = max(best, share)
    return f"best foreign script {best:.2f}"


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
