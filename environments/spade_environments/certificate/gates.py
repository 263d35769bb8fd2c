"""Gates 1 to 4 and 10: the text, loading, first steps, determinism, novelty."""

from __future__ import annotations

import math
import random

from spade_environments.inside.contract import MAX_TURNS_LIMIT
from spade_environments.wording import counted

from .findings import Rejection, quoted, shown
from .lint import lint
from .plays import Slot, Transcript, scripted
from .probes import prober
from .trial import Trial, seeds_of

__all__ = ["check_same", "determinism_gate", "lint_gate", "load_gate", "novelty_gate", "reset_gate"]

MAX_TOOLS = 32
MAX_OBSERVATION = 32_000
FEW = 3
MORE = 24


async def lint_gate(trial: Trial) -> str:
    """Gate 1: the source parses, imports and uses only what is allowed, and has the form of a designed file."""
    designed = trial.spec.provenance.get("kind") != "imported"
    problems = lint(trial.spec.source, max_bytes=trial.settings.max_source_bytes, designed=designed)
    if problems:
        repairs = dict.fromkeys(problem.repair for problem in problems)
        raise Rejection("; ".join(map(str, problems)), " ".join(repairs))
    return f"{len(trial.spec.source.encode())} bytes, nothing forbidden"


async def load_gate(trial: Trial) -> str:
    """Gate 2: the source loads within the limits and declares valid tools."""
    env = await trial.children.env(Slot.FIRST)
    trial.description = declared = env.description
    if not 1 <= declared.max_turns <= MAX_TURNS_LIMIT:
        raise Rejection(f"max_turns is {declared.max_turns}", f"Set max_turns between 1 and {MAX_TURNS_LIMIT}.")
    if not 1 <= len(declared.tools) <= MAX_TOOLS:
        raise Rejection(
            f"it declares {counted(len(declared.tools), 'tool')}", f"Define between 1 and {MAX_TOOLS} @tool methods."
        )
    return f"class {declared.class_name}, {counted(len(declared.tools), 'tool')}, max_turns {declared.max_turns}"


async def reset_gate(trial: Trial) -> str:
    """Gate 3: reset and steps on every seed give what the contract says."""
    tools = trial.declared.tools
    steps = 0
    for number, seed in enumerate(trial.seeds):
        rng = random.Random(f"{trial.spec.id}:{seed}")
        player = prober(tools, text=trial.is_text, rng=rng)
        # Every other play runs to the end: behaviour may change late, and on some instances only.
        limit = trial.declared.max_turns
        if number % 2:
            limit = min(trial.settings.probe_steps, limit)
        play = await trial.children.play(Slot.FIRST, seed, player, limit=limit)
        _check_play(play)
        trial.probes[seed] = play
        steps += len(play.steps)
        if number == 0 and trial.declared.hidden:
            # A path that leads nowhere faults here.
            await trial.children.hidden_values(Slot.FIRST, seed)
    return f"{counted(len(trial.seeds), 'seed')} reset, {counted(steps, 'probe action')} taken"


def _check_play(play: Transcript) -> None:
    if not play.first.text.strip():
        raise Rejection(
            f"seed {play.seed}: the first observation is empty", "Let it tell the task and how to act, in words."
        )
    for text in play.texts:
        if len(text) > MAX_OBSERVATION:
            evidence = f"seed {play.seed}: an observation of {len(text)} characters; at most {MAX_OBSERVATION}"
            raise Rejection(evidence, "Show less, or page it through a tool.")
    for number, step in enumerate(play.steps, 1):
        reward = step.result.reward
        if not (math.isfinite(reward) and 0.0 <= reward <= 1.0):
            evidence = f"seed {play.seed}, action {number} ({shown(step.action)}): the reward is {reward}"
            raise Rejection(evidence, "Return a finite reward between 0 and 1.")


async def determinism_gate(trial: Trial) -> str:
    """Gate 4: the same seed and actions give the same play anywhere and any time; other seeds give others.

    Zygote 1 has another hash seed and plays the seeds in the opposite order, so that all but one instance are met with
    other episodes before them than in zygote 0.
    """
    for seed in reversed(trial.seeds):
        probe = trial.probes[seed]
        again = await trial.children.play(Slot.OTHER, seed, scripted(probe.actions), limit=len(probe.steps))
        check_same(probe, again, "probe")
    await trial.compute_gold()
    if trial.gold:
        await trial.play_gold()
    if trial.gold_plays:
        others = await trial.replay_gold(Slot.OTHER, trial.seeds[::-1])
        for seed in trial.seeds:
            check_same(trial.gold_plays[seed], others[seed], "gold")
    await _check_seeds_differ(trial)
    return f"{counted(len(trial.seeds), 'seed')} played alike in two zygotes, before and after other episodes"


def check_same(one: Transcript, other: Transcript, kind: str) -> None:
    """Raise `Rejection` where two plays of one instance by the same actions differ."""
    if one == other:
        return
    advice = "Draw only from self.rng; never let set order, time, id() or anything kept between episodes decide."
    where = f"seed {one.seed}, {kind} play"
    if (one.first, one.tools) != (other.first, other.tools):
        seen = (
            f"the first observation is {quoted(one.first.text)} in one process, {quoted(other.first.text)} in another"
        )
        raise Rejection(f"{where}: {seen}", advice)
    for number, (left, right) in enumerate(zip(one.steps, other.steps, strict=False), 1):
        if left != right:
            raise Rejection(f"{where}, action {number} ({shown(left.action)}): {_difference(left, right)}", advice)
    raise Rejection(
        f"{where}: {counted(len(one.steps), 'action')} in one process, {len(other.steps)} in another", advice
    )


def _difference(left: object, right: object) -> str:
    one, other = left.result, right.result  # type: ignore[attr-defined]
    if one.observation != other.observation:
        return f"{quoted(one.observation.text)} in one process, {quoted(other.observation.text)} in another"
    names = ("reward", "terminated", "truncated", "info")
    name = next(name for name in names if getattr(one, name) != getattr(other, name))
    return f"{name} is {getattr(one, name)} in one process, {getattr(other, name)} in another"


async def _check_seeds_differ(trial: Trial) -> None:
    if not all(trial.gold.get(seed) for seed in trial.seeds):
        return  # One first observation may hide many instances; without gold the later gates say what is wrong.
    instances = {(trial.probes[seed].first.text, repr(trial.gold.get(seed))) for seed in trial.seeds}
    if len(instances) == 1:
        raise Rejection(
            f"all {len(trial.seeds)} seeds give one instance: {quoted(trial.probes[trial.seeds[0]].first.text)}",
            "Draw the instance from self.rng in setup or reset.",
        )
    solutions = {repr(trial.gold[seed]) for seed in trial.seeds}
    # Where one action is the answer, gate 7 tries it on others.
    if len(solutions) <= FEW and max(len(trial.gold[seed]) for seed in trial.seeds) > 1:
        more = seeds_of(trial.spec, MORE, skip=len(trial.seeds))
        solutions |= {repr(await trial.children.solution(Slot.FIRST, seed)) for seed in more}
        # One script for all seeds is what gate 7 names.
        if 1 < len(solutions) <= FEW:
            evidence = f"{len(trial.seeds) + MORE} seeds have only {len(solutions)} different solutions"
            raise Rejection(evidence, "Draw more of the instance from self.rng: few solutions are learnt by heart.")


async def novelty_gate(trial: Trial) -> str:
    """Gate 10: the injected admission rule lets it in."""
    if trial.novelty is None:
        raise RuntimeError("the gate 'novelty' runs only with a rule; pass novelty=")
    judge = trial.novelty if callable(trial.novelty) else trial.novelty.admits
    admitted, evidence = judge(trial.spec.source)
    if not admitted:
        raise Rejection(evidence, "Design another structure: other state, tools and goals, not other names and words.")
    return evidence
