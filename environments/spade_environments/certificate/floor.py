"""Gate 7: agents without understanding stay at the floor."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from spade_environments.faults import EnvironmentFault
from spade_environments.types import Action, Reply, ToolSpec

from .findings import Rejection, shown
from .lax import check_lax_goals
from .near_miss import check_near_misses, provoker, wins_alone, written_words
from .players import busy_player, dumper, random_player, repeating, silent, talkative, tool_repeater
from .plays import Player, Slot, scripted
from .probes import text_action, tokens
from .trial import Trial, by_goal, seeds_of
from .types import Gate

__all__ = ["floor_gate"]

FRESH = 40
ANSWERS = 6
HABITS = 12
WORDS = 200
WORD_PLAYS = 20
COMMON_SEEDS = 4
LISTED = 1000
SCRIPTS = 3
_COMMON = (
    *(
        "yes",
        "no",
        "0",
        "1",
        "2",
        "5",
        "-1",
        "a",
        "e",
        "A",
        "true",
        "none",
        "help",
        "ok",
        "done",
        "skip",
        "quit",
        "win",
    ),
)

Play = Callable[[int], Awaitable[float]]


async def floor_gate(trial: Trial) -> str:
    """Gate 7: silent, random, repeating and dumping agents, a constant first action and a foreign script win little."""
    await _check_depth(trial)
    agents = _agents(trial) | await _habits(trial)
    found = [await _check_agent(trial, name, make) for name, make in agents.items()]
    found.append(await _check_first_actions(trial))
    found.append(await _check_scripts(trial))
    await check_near_misses(trial)
    if not trial.is_text:
        await check_lax_goals(trial)
    if trial.step_fault is not None and Gate.ROBUSTNESS not in trial.settings.gates:
        raise trial.step_fault
    return "; ".join(found)


async def _check_depth(trial: Trial) -> None:
    """A fully observed environment of several turns must take more than one action, whatever else its gold does."""
    declared = trial.declared
    if declared.observability != "full" or declared.max_turns == 1:
        return
    short = sum([len(trial.gold[seed]) == 1 or await wins_alone(trial, seed) for seed in trial.seeds])
    if short > len(trial.seeds) / 2:
        evidence = f"all is shown, and one action solves {short} of {len(trial.seeds)} instances of a game of turns"
        raise Rejection(evidence, "Make it need several actions, or set max_turns = 1.")


def _agents(trial: Trial) -> dict[str, Callable[[int], Player]]:
    """Players by name, each made anew for a seed."""
    text, tools, limit = trial.is_text, trial.declared.tools, trial.declared.max_turns

    def random_agent(number: int) -> Callable[[int], Player]:
        return lambda seed: random_player(tools, text=text, rng=random.Random(f"{trial.spec.id}:{seed}:{number}"))

    def busy(seed: int) -> Player:
        return busy_player(tools, random.Random(f"{trial.spec.id}:{seed}:busy"))

    agents: dict[str, Callable[[int], Player]] = {}
    if not text:
        agents = {"silent": lambda seed: silent, "talkative": lambda seed: talkative, "busy": busy}
    agents |= {f"random {number + 1}": random_agent(number) for number in range(trial.settings.floor_plays)}
    if not text:
        numbers = Reply(text=" ".join(map(str, range(100))))  # as many as a reply takes
        agents["every small number"] = lambda seed: repeating(numbers)
    agents["dump"] = lambda seed: dumper(tools, text=text, max_turns=limit, cut=seed % 2 == 0)
    if text:
        listed = text_action(tools[0], " ".join(map(str, range(LISTED))))
        agents["every number"] = lambda seed: scripted([listed, listed])
        if limit > 1:
            agents["nonsense, then what it brought"] = provoker(trial)
    return agents


async def _habits(trial: Trial) -> dict[str, Callable[[int], Player]]:
    """One habit again and again: an action of the gold, and words of the task or bare tools that win on one seed."""
    if not trial.is_text:
        bare = [tool for tool in trial.declared.tools if not tool.parameters.get("required")]
        players = {f"repeat {tool.name}": _made(tool_repeater(tool)) for tool in bare[:HABITS]}
        return await _won(trial, players)
    if trial.declared.max_turns == 1:
        return {}
    tool, first = trial.declared.tools[0], trial.probes[trial.seeds[0]].first.text
    words = [token for token in tokens(first) if token.isalpha()]
    found = await _winning_words(trial, _said(tool, [*words[HABITS:WORDS], *written_words(trial.spec.source)]))
    chosen = [*_said(tool, words[:HABITS]), *found[:HABITS]]
    tried = {f"repeat {shown(action)}": _made(repeating(action)) for action in chosen}
    usual = {f"repeat {shown(action)}": _made(repeating(action)) for action in _usual(trial, trial.seeds[:2])}
    return usual | await _won(trial, tried)


async def _winning_words(trial: Trial, said: Sequence[Action]) -> list[Action]:
    """Those of many actions that end an episode of the first seed with a reward; one after another, many in each."""
    left = list(said)
    found: list[Action] = []
    for _ in range(WORD_PLAYS):
        if not left:
            break
        try:
            play = await trial.children.play(
                Slot.GOLD, trial.seeds[0], scripted(left), limit=min(len(left), trial.declared.max_turns)
            )
        except EnvironmentFault as fault:
            trial.keep_step_fault(fault)
            break
        if play.value > 0:
            found.append(left[len(play.steps) - 1])
        left = left[max(1, len(play.steps)) :]
    return found


async def _won(trial: Trial, players: dict[str, Callable[[int], Player]]) -> dict[str, Callable[[int], Player]]:
    """Those that are paid on the first seed."""
    seed, limit = trial.seeds[0], trial.declared.max_turns
    return {name: make for name, make in players.items() if await _value(trial, seed, make(seed), limit) > 0}


def _said(tool: ToolSpec, words: Sequence[str]) -> list[Action]:
    return [text_action(tool, word) for word in words]


def _made(player: Player) -> Callable[[int], Player]:
    return lambda seed: player


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


async def _mean_beyond_doubt(trial: Trial, play: Play, seeds: Sequence[int] = ()) -> float:
    """Mean return over the seeds; where it comes near the floor, over fresh ones: chance then decides less."""
    mean = await _mean(play, seeds or trial.seeds)
    if mean > trial.settings.floor / 2:
        mean = await _mean(play, seeds_of(trial.spec, FRESH, skip=trial.settings.seeds))
    return mean


async def _mean(play: Play, seeds: Sequence[int]) -> float:
    return sum([await play(seed) for seed in seeds]) / len(seeds)


async def _value(trial: Trial, seed: int, player: Player, limit: int) -> float:
    """The return of a play; a step that faults pays nothing here, and gate `robustness` is told."""
    try:
        return (await trial.children.play(Slot.GOLD, seed, player, limit=limit)).value
    except EnvironmentFault as fault:
        trial.keep_step_fault(fault)
        return 0.0


async def _check_first_actions(trial: Trial) -> str:
    """No one action, tried first, wins on more than the floor's share of seeds."""
    best = 0.0
    for action, count in _first_actions(trial):

        async def play(seed: int, action: Action = action) -> float:
            return float(await _value(trial, seed, scripted([action]), 1) >= 1.0)

        share = await _mean_beyond_doubt(trial, play, trial.seeds[:count])
        if share > trial.settings.floor:
            evidence = f"{shown(action)}, tried first, wins on {share:.0%} of seeds"
            raise Rejection(evidence, "Let the answer differ more from seed to seed, or ask for more than a guess.")
        best = max(best, share)
    return f"best first action {best:.2f}"


def _first_actions(trial: Trial) -> list[tuple[Action, int]]:
    """Actions to try first, and on how many seeds: answers of other instances on all, common words on a few."""
    answers = _distinct(_answers(trial))[:ANSWERS]
    if not answers:
        return []
    tool = trial.declared.tools[0]
    common = _said(tool, _COMMON) if trial.is_text else [Reply(text=word) for word in _COMMON]
    fewer = [(action, COMMON_SEEDS) for action in common if action not in answers]
    return [(action, len(trial.seeds)) for action in answers] + fewer


def _answers(trial: Trial) -> list[Action]:
    if trial.is_text:
        return [trial.gold[seed][0] for seed in trial.seeds]
    if any(len(by_goal(trial.gold[seed])) > 1 for seed in trial.seeds):
        return []  # No single action can end an episode of several goals with a win.
    return [by_goal(trial.gold[seed])[0][-1] for seed in trial.seeds]


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
