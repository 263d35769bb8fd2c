"""Gates 5 and 6: goals are met in their turn only, and `solution()` wins."""

from __future__ import annotations

from spade_environments.faults import EnvironmentFault
from spade_environments.types import Action, Reply
from spade_environments.wording import counted

from .findings import Rejection, quoted, shown
from .plays import Player, Slot, Transcript, scripted
from .probes import text_action
from .trial import Trial, by_goal, seeds_of

__all__ = ["goals_gate", "gold_gate"]

_MET_BY_SILENCE = ("asked", "declined")
_EMPTY_WORDS = "OK, it is done."
_SPOKEN_SEEDS = 3
MORE = 32
FACTOR = 4


async def goals_gate(trial: Trial) -> str:
    """Gate 5: empty words meet no goal but `asked` and `declined`; `solution()` meets the goals in order."""
    if trial.is_text:
        return await _text_goals(trial)
    trial.demand_gold()
    goals = 0
    for seed in trial.seeds:
        goals = _check_order(trial.gold_plays[seed])
        for number in range(goals):
            await _check_empty(trial, seed, number, "")
            if seed in trial.seeds[:_SPOKEN_SEEDS]:
                await _check_empty(trial, seed, number, _EMPTY_WORDS)
    met_on = counted(len(trial.seeds), "seed")
    return f"{counted(goals, 'goal')}, each met in its turn alone, and by solution() in order, on {met_on}"


async def _text_goals(trial: Trial) -> str:
    tool = trial.declared.tools[0]
    for said in ("", " "):
        for seed in trial.seeds if not said else trial.seeds[:_SPOKEN_SEEDS]:
            player = _repeating(text_action(tool, said))
            play = await trial.children.play(Slot.GOLD, seed, player, limit=trial.declared.max_turns)
            if play.value > 0:
                evidence = (
                    f"seed {seed}: reward {play.value:g} after {counted(len(play.steps), 'empty action')} ({said!r})"
                )
                raise Rejection(evidence, "Pay nothing for an empty or meaningless action.")
    return f"empty actions win nothing on {counted(len(trial.seeds), 'seed')}"


def _repeating(action: Action) -> Player:
    return lambda play: action


def _check_order(play: Transcript) -> int:
    """The number of goals, all met in order by the gold play.

    Raises:
        Rejection: a goal that its part of `solution()` does not meet, or parts too few or too many.
    """
    parts = by_goal(play.actions)
    met = 0
    for number, step in enumerate(play.steps, 1):
        info = step.result.info
        if not isinstance(step.action, Reply):
            if "error" in info:
                evidence = f"seed {play.seed}: action {number} of solution(), {shown(step.action)}, is malformed"
                raise Rejection(
                    f"{evidence}: {quoted(step.result.observation.text)}", "Call tools as they are declared."
                )
            continue
        if not info.get("met"):
            raise Rejection(
                f"seed {play.seed}: solution() does not meet goal {met + 1} ({info.get('kind')}, {_told(play, met)}) "
                f"with {', '.join(map(shown, parts[met]))}",
                "Make the goal's check and its part of solution() agree"
                + (": a goal of kind state needs a changed state." if info.get("kind") == "state" else "."),
            )
        met += 1
    if not play.terminated:
        evidence = f"seed {play.seed}: solution() has {met} parts, and goals remain ({_told(play, met)})"
        raise Rejection(evidence, "Let solution() return one list for each goal.")
    return met


def _told(play: Transcript, goal: int) -> str:
    """The instruction of a goal: the first observation, or what came back for the Reply before."""
    users = [play.first.text, *(s.result.observation.text for s in play.steps if isinstance(s.action, Reply))]
    return quoted(users[goal], 80)


async def _check_empty(trial: Trial, seed: int, goal: int, said: str) -> None:
    """No goal but `asked` and `declined` is met by nothing at all, or by words that say nothing."""
    gold = trial.gold[seed]
    before = [action for part in by_goal(gold)[:goal] for action in part]
    script = (*before, Reply(text=said))
    try:
        play = await trial.children.play(Slot.GOLD, seed, scripted(script), limit=len(script))
    except EnvironmentFault as fault:
        trial.keep_step_fault(fault)
        return
    info = play.steps[-1].result.info
    if len(play.steps) == len(script) and info.get("met") and info.get("kind") not in _MET_BY_SILENCE:
        raise Rejection(
            f"seed {seed}: goal {goal + 1} ({info.get('kind')}, {_told(play, goal)}) is met by an empty reply at once"
            + (f" ({said!r})" if said else ""),
            "Let its check demand calls or words that come after the instruction.",
        )


async def gold_gate(trial: Trial) -> str:
    """Gate 6: `solution()` ends every instance with full reward, within `max_turns`."""
    trial.demand_gold()
    lengths = [len(trial.gold[seed]) for seed in trial.seeds]
    for seed, length in zip(trial.seeds, lengths, strict=True):
        _check_length(trial, seed, length)
        _check_win(trial.gold_plays[seed], length)
    more = await _play_more(trial)
    if min(lengths) < trial.settings.min_gold_steps:
        evidence = f"solution() takes {min(lengths)} messages; wanted at least {trial.settings.min_gold_steps}"
        raise Rejection(evidence, "Make the task longer.")
    return (
        f"reward 1 on {len(lengths)} and {more} more seeds, in {min(lengths)} to {max(lengths)} messages on the first"
    )


async def _play_more(trial: Trial) -> int:
    """Solve further instances, each played once: what fails on a few seeds only is seen on many."""
    count = min(MORE, FACTOR * len(trial.seeds))
    for seed in seeds_of(trial.spec, count, skip=len(trial.seeds)):
        gold = await trial.children.solution(Slot.FIRST, seed)
        _check_length(trial, seed, len(gold))
        play = await trial.children.play(Slot.GOLD, seed, scripted(gold), limit=len(gold))
        _check_win(play, len(gold))
    return count


def _check_length(trial: Trial, seed: int, length: int) -> None:
    limit = trial.declared.max_turns
    if length > limit:
        evidence = f"seed {seed}: solution() takes {length} messages; max_turns is {limit}"
        raise Rejection(evidence, "Raise max_turns (at most 25) or shorten the task.")


def _check_win(play: Transcript, length: int) -> None:
    advice = (
        "Make solution() return exactly the actions that solve the instance just reset, with reward 1.0 at the end."
    )
    if not length:
        raise Rejection(f"seed {play.seed}: solution() is empty", advice)
    if len(play.steps) < length:
        evidence = f"seed {play.seed}: the episode ends after action {len(play.steps)} of {length} of solution()"
        raise Rejection(evidence, advice)
    last = play.steps[-1]
    if not last.result.terminated:
        evidence = (
            f"seed {play.seed}: solution() does not end the episode; its last action, {shown(last.action)}, gives"
        )
        raise Rejection(f"{evidence} {quoted(last.result.observation.text)}", advice)
    if last.result.reward < 1.0:
        evidence = f"seed {play.seed}: solution() ends with reward {last.result.reward:g}, not 1"
        raise Rejection(f"{evidence} ({quoted(last.result.observation.text)})", advice)
