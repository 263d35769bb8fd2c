"""Gate 9: nothing that the agent reads gives the answer, a hidden value or its reward away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spade_environments.types import Action, Reply

from .findings import Rejection, quoted, shown
from .plays import Slot, Step, Transcript
from .probes import all_tokens
from .trial import Trial
from .values import gold_values, holds, instructions

__all__ = ["leak_gate"]

_REWARD = re.compile(r"(?<!\w)reward\W{1,4}(?:is\W+)?-?\d", re.IGNORECASE)
_SCORE = re.compile(r"(?<!\w)score\W{1,4}(?:is\W+)?(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_REWARD_ADVICE = "Tell what happened, never how it is paid."
_MIN_IDENTIFIER = 3


async def leak_gate(trial: Trial) -> str:
    """Gate 9: descriptions, first observations and mid-episode texts give nothing away."""
    _check_descriptions(trial)
    if trial.is_text and trial.declared.max_turns == 1:
        _check_answers(trial)
    if trial.declared.observability == "partial":
        await _check_hidden(trial)
    _check_rewards([*trial.gold_plays.values(), *trial.probes.values()])
    return "no answer, hidden value or reward stands where an agent reads"


def _check_descriptions(trial: Trial) -> None:
    """A number or identifier of the gold in a tool's description, though the instructions do not give it."""
    for tool in trial.declared.tools:
        seeds: dict[str, int] = {}
        for seed in trial.seeds:
            given = instructions(trial.gold_plays[seed])
            for value in dict.fromkeys(gold_values(trial.gold[seed])):
                if _is_identifier(value) and holds(tool.description, value) and not any(holds(t, value) for t in given):
                    seeds[value] = seeds.get(value, 0) + 1
        for value, count in seeds.items():
            if count > len(trial.seeds) / 2:
                evidence = (
                    f"the description of {tool.name} holds {quoted(value)}, which solution() uses on {count} seeds"
                )
                raise Rejection(evidence, "Let an instruction give the value, or a tool return it.")


def _is_identifier(value: str) -> bool:
    return len(value) >= _MIN_IDENTIFIER and any(map(str.isdigit, value)) and " " not in value


def _check_answers(trial: Trial) -> None:
    """A single-turn answer in its own question, unless the questions list other answers as well."""
    answers = {seed: _text(trial.gold[seed][-1]) for seed in trial.seeds}
    shown_on = []
    for seed, answer in answers.items():
        question = trial.probes[seed].first.text
        others = {other for other in answers.values() if other != answer}
        if holds(question, answer) and not any(holds(question, other) for other in others):
            shown_on.append(seed)
    if len(shown_on) > len(trial.seeds) / 2:
        seed = shown_on[0]
        evidence = f"the answer stands in the question on {len(shown_on)} of {len(trial.seeds)} seeds"
        raise Rejection(
            f"{evidence} (seed {seed}: {quoted(answers[seed])})", "Ask for something that must be worked out."
        )


def _text(action: Action) -> str:
    return action.text if isinstance(action, Reply) else str(next(iter(action.arguments.values())))


async def _check_hidden(trial: Trial) -> None:
    """What `hidden` names, in the first observation, on most seeds."""
    found: dict[str, list[int]] = {}
    for seed in trial.seeds if trial.declared.hidden else ():
        first = trial.probes[seed].first.text
        values = await trial.children.hidden_values(Slot.GOLD, seed)
        for path, value in values.items():
            if value.strip() and value not in ("None", "True", "False") and _shows(first, value.strip()):
                found.setdefault(path, []).append(seed)
    for path, seeds in found.items():
        if len(seeds) > len(trial.seeds) / 2:
            evidence = (
                f"the hidden value {path} stands in the first observation on {len(seeds)} seeds (seed {seeds[0]})"
            )
            raise Rejection(evidence, "Leave it out of the first observation, or do not call it hidden.")


def _shows(text: str, value: str) -> bool:
    """Whether a hidden value stands in `text`: as it is, or the parts of a list or dict in a row."""
    if value[0] not in "[({":
        return holds(text, value)
    parts, seen = all_tokens(value), all_tokens(text)
    return bool(parts) and any(seen[start : start + len(parts)] == parts for start in range(len(seen)))


def _check_rewards(plays: list[Transcript]) -> None:
    """A reward in words or as its number; a score counts when no play shows one beyond 1, as points would be."""
    scores: list[tuple[float, str]] = []
    for play in plays:
        for number, step in _unfinished(play):
            text, reward = step.result.observation.text, step.result.reward
            where = f"seed {play.seed}, action {number} ({shown(step.action)}): {quoted(text, 80)}"
            scores += [(abs(float(found)), where) for found in _SCORE.findall(text)]
            if _REWARD.search(text) or (0.0 < reward < 1.0 and holds(text, f"{reward:g}")):
                raise Rejection(f"the reward can be read before the end; {where}", _REWARD_ADVICE)
    if scores and max(scores)[0] <= 1.0:
        raise Rejection(f"the score can be read before the end; {scores[0][1]}", _REWARD_ADVICE)


def _unfinished(play: Transcript) -> Iterator[tuple[int, Step]]:
    for number, step in enumerate(play.steps, 1):
        if not (step.result.terminated or step.result.truncated):
            yield number, step
