"""Gate 9: nothing that the agent reads gives the answer, a hidden value or its reward away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spade_environments.types import Action, Reply
from spade_environments.wording import counted

from .disguise import MIN_LENGTH, stands_disguised
from .findings import Rejection, quoted, shown
from .near_miss import wins_alone
from .plays import Slot, Step, Transcript
from .probes import all_tokens
from .trial import Trial
from .values import gold_values, holds, instructions

__all__ = ["leak_gate"]

_SO_FAR = r"(?:[_ ](?:so[_ ]far|until[_ ]now|now|of))?\W{1,4}(?:is\W+)?"
_REWARD = re.compile(rf"(?<![^\W_])reward{_SO_FAR}-?[01](?:\.\d+)?(?!\w|\.\d)", re.IGNORECASE)
_SCORE = re.compile(
    rf"(?<![^\W_])(?:score|scored|grade|mark|rating|accuracy){_SO_FAR}(-?\d+(?:\.\d+)?)\s*(%|per ?cent)?",
    re.IGNORECASE,
)
_SHARE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?(%|per ?cent) (?:right|correct)(?!\w)", re.IGNORECASE)
_REWARD_ADVICE = "Tell what happened, never how it is paid."
_MIN_IDENTIFIER = 3
_NO_VALUES = ("None", "True", "False")


async def leak_gate(trial: Trial) -> str:
    """Gate 9: descriptions, first observations and mid-episode texts give nothing away."""
    _check_descriptions(trial)
    if trial.is_text:
        await _check_answers(trial)
    if trial.declared.observability == "partial" and trial.declared.hidden:
        values = {seed: await trial.children.hidden_values(Slot.GOLD, seed) for seed in trial.seeds}
        _check_hidden(trial, values)
        _check_errors(trial, values)
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


async def _check_answers(trial: Trial) -> None:
    """The one action that wins in its own question, unless the questions list other answers as well.

    Of a solution of several actions the last one counts where it wins without the others.
    """
    answers = {seed: _text(trial.gold[seed][-1]) for seed in trial.seeds}
    shown_on = []
    for seed, answer in answers.items():
        question = trial.probes[seed].first.text
        others = {other for other in answers.values() if other != answer}
        told = holds(question, answer) and not any(holds(question, other) for other in others)
        if told and (len(trial.gold[seed]) == 1 or await wins_alone(trial, seed)):
            shown_on.append(seed)
    if len(shown_on) > len(trial.seeds) / 2:
        seed = shown_on[0]
        evidence = f"the answer stands in the question on {len(shown_on)} of {len(trial.seeds)} seeds"
        raise Rejection(
            f"{evidence} (seed {seed}: {quoted(answers[seed])})", "Ask for something that must be worked out."
        )


def _text(action: Action) -> str:
    return action.text if isinstance(action, Reply) else str(next(iter(action.arguments.values())))


def _check_hidden(trial: Trial, values: dict[int, dict[str, str]]) -> None:
    """What `hidden` names, in the first observation, on most seeds, as it is or in disguise."""
    found: dict[str, list[int]] = {}
    for seed, hidden in values.items():
        first = trial.probes[seed].first.text
        for path, value in hidden.items():
            told = value.strip()
            if not told or told in _NO_VALUES:
                continue
            differs = len({other[path] for other in values.values()}) > 1
            if _shows(first, told) or (differs and stands_disguised(first, told, inside=True)):
                found.setdefault(path, []).append(seed)
    for path, seeds in found.items():
        if len(seeds) > len(trial.seeds) / 2:
            evidence = (
                f"the hidden value {path} stands in the first observation on {counted(len(seeds), 'seed')} "
                f"(seed {seeds[0]}), as it is or in another form: {quoted(trial.probes[seeds[0]].first.text, 80)}"
            )
            raise Rejection(evidence, "Leave it out of the first observation, or do not call it hidden.")


def _check_errors(trial: Trial, values: dict[int, dict[str, str]]) -> None:
    """A hidden value in the answers to malformed and wrong actions, on every seed on which these were taken."""
    told = {seed: _own_words(trial, seed) for seed in trial.odd_steps}
    for path in trial.declared.hidden:
        places = {seed: _told_in(told[seed], values[seed][path]) for seed in told}
        if places and all(places.values()):
            seed, place = next(iter(places.items()))
            evidence = f"the hidden value {path} is told by what comes of a wrong action; seed {seed}, {place}"
            raise Rejection(evidence, "Say that the action is wrong, and what form a right one has; nothing more.")


def _own_words(trial: Trial, seed: int) -> list[tuple[Step, list[str]]]:
    """What wrong actions brought on a seed: each with the words that no other seed was told, nor the action said."""
    elsewhere = {
        word
        for other, steps in trial.odd_steps.items()
        if other != seed
        for step in steps
        for word in all_tokens(step.result.observation.text)
    }
    told = []
    for step in trial.odd_steps[seed]:
        if step.result.terminated or step.result.info.get("ok", False):
            continue
        said = set(all_tokens(_spoken(step.action)))
        words = [word for word in all_tokens(step.result.observation.text) if word not in elsewhere | said]
        if words:
            told.append((step, words))
    return told


def _told_in(told: list[tuple[Step, list[str]]], value: str) -> str:
    """Where a hidden value, or a part of it that is an identifier, stands in these words; in halves, in two of them."""
    parts = {part for part in all_tokens(value) if len(part) >= MIN_LENGTH} if value[:1] in "[({" else {value.strip()}
    wanted = {part.lower() for part in parts if len(part) >= MIN_LENGTH and not (len(parts) > 1 and part.isalpha())}
    for number, (step, words) in enumerate(told):
        nearby = words + [word for _, more in told[number + 1 : number + 2] for word in more]
        joined = ["".join(nearby).lower(), *(word.lower() for word in words)]
        if any(part in text or stands_disguised(text, part) for part in wanted for text in joined):
            return f"{shown(step.action)}: {quoted(step.result.observation.text, 80)}"
    return ""


def _spoken(action: Action) -> str:
    return action.text if isinstance(action, Reply) else " ".join(map(str, action.arguments.values()))


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
            told = _SCORE.findall(text) + _SHARE.findall(text)
            scores += [(abs(float(found)) / (100 if share else 1), where) for found, share in told]
            if _REWARD.search(text) or (0.0 < reward < 1.0 and holds(text, f"{reward:g}")):
                raise Rejection(f"the reward can be read before the end; {where}", _REWARD_ADVICE)
    if scores and max(scores)[0] <= 1.0:
        raise Rejection(f"the score can be read before the end; {scores[0][1]}", _REWARD_ADVICE)


def _unfinished(play: Transcript) -> Iterator[tuple[int, Step]]:
    for number, step in enumerate(play.steps, 1):
        if not (step.result.terminated or step.result.truncated):
            yield number, step
