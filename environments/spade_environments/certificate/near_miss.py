"""Gate 7, answer by answer: what only looks like an answer does not win, and nonsense brings none."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from spade_environments.faults import EnvironmentFault
from spade_environments.types import Action, Reply

from .findings import Rejection, shown
from .plays import Player, Slot, Transcript, scripted
from .probes import text_action, tokens
from .trial import Trial, by_goal

__all__ = ["check_near_misses", "provoker", "wins_alone", "written_words"]

SEEDS = 4
LITERALS = 60
_LONGEST = 40
_TRIES = 5
_NONSENSE = "qwxz"
_INTEGER = re.compile(r"(?<![\w.,/-])\d{1,12}(?![\w,/]|\.\d)")
_ADVICE = "Compare the whole answer with the right one, not whether it stands somewhere in what was said."


def written_words(source: str) -> list[str]:
    """Short texts that stand in a source, in order: a word that always wins stands there if anywhere."""
    literals = (
        node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and type(node.value) is str
    )
    short = dict.fromkeys(text.strip() for text in literals if text.strip() and len(text) <= _LONGEST)
    return [text for text in short if "\n" not in text][:LITERALS]


def provoker(trial: Trial) -> Callable[[int], Player]:
    """Talks nonsense for half of the episode at most, and then says what that brought, the last word first."""
    tool, tries = trial.declared.tools[0], max(1, min(_TRIES, trial.declared.max_turns // 2))

    def player(play: Transcript) -> Action | None:
        done = len(play.steps)
        if done < tries:
            return text_action(tool, _NONSENSE)
        known = set(tokens(play.first.text))
        new = [word for word in reversed(tokens(*play.texts[1 : tries + 1])) if word not in known]
        return text_action(tool, new[done - tries]) if done - tries < len(new) else None

    return lambda seed: player


async def check_near_misses(trial: Trial) -> None:
    """Try answers in which the right one only stands among others, or its digits inside longer ones.

    Raises:
        Rejection: one that is taken on every seed on which it could be tried.
    """
    results: dict[str, list[bool]] = {}
    told: dict[str, Action] = {}
    for seed in trial.seeds[:SEEDS]:
        attempts = _texts(trial, seed) if trial.is_text else _replies(trial, seed)
        for what, before, action in attempts:
            told.setdefault(what, action)
            results.setdefault(what, []).append(await _is_taken(trial, seed, before, action))
    for what, taken in results.items():
        if len(taken) >= min(SEEDS, len(trial.seeds)) and all(taken):
            raise Rejection(f"{what} is taken for the right answer, such as {shown(told[what])}", _ADVICE)


async def wins_alone(trial: Trial, seed: int) -> bool:
    """Whether the last action of a TextEnv's gold wins without those before it."""
    return trial.is_text and await _is_taken(trial, seed, (), trial.gold[seed][-1])


def _texts(trial: Trial, seed: int) -> Iterator[tuple[str, Sequence[Action], Action]]:
    """The last action of a TextEnv, where it is an answer of its instance and no command that others share."""
    tool = trial.declared.tools[0]
    answers = {each: _said(gold[-1]) for each, gold in trial.gold.items()}
    others = [other for other in dict.fromkeys(answers.values()) if other != answers[seed]]
    if 2 * (len(others) + 1) <= len(trial.seeds) or len(others) < 2:
        return
    *before, last = trial.gold[seed]
    answer = _said(last)
    yield "an answer among wrong ones", before, text_action(tool, f"{others[0]} {answer} {others[1]}")
    for what, text in _stretched(answer):
        yield what, before, text_action(tool, text)


def _replies(trial: Trial, seed: int) -> Iterator[tuple[str, Sequence[Action], Action]]:
    """The replies of a ToolEnv's solution, goal by goal."""
    parts = by_goal(trial.gold[seed])
    for number, part in enumerate(parts):
        before = [action for earlier in parts[:number] for action in earlier]
        for what, text in _stretched(_said(part[-1])):
            yield f"{what}, in the reply to goal {number + 1},", [*before, *part[:-1]], Reply(text=text)


def _stretched(answer: str) -> Iterator[tuple[str, str]]:
    if _INTEGER.search(answer):
        yield "the digits of the answer inside a longer number", _INTEGER.sub(r"9\g<0>9", answer)
    if re.fullmatch(r"[1-9]\d{0,11}", answer):
        yield "a tenfold answer", f"{answer}0"


def _said(action: Action) -> str:
    return action.text if isinstance(action, Reply) else str(next(iter(action.arguments.values()), ""))


async def _is_taken(trial: Trial, seed: int, before: Sequence[Action], action: Action) -> bool:
    """Whether it wins, or meets a goal that is of kind `replied`."""
    script = (*before, action)
    try:
        play = await trial.children.play(Slot.GOLD, seed, scripted(script), limit=len(script))
    except EnvironmentFault as fault:
        trial.keep_step_fault(fault)
        return False
    info = play.steps[-1].result.info
    if isinstance(action, Reply):
        return len(play.steps) == len(script) and info.get("kind") == "replied" and bool(info.get("met"))
    return play.value >= 1.0
