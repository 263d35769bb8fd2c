"""certify_hint: a hint may give the idea and the form of the answer, never the answer or an argument of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spade_environments.spec import EnvironmentSpec
from spade_environments.wording import counted

from .certify import run_gates, versions
from .disguise import computed, stands_disguised
from .findings import Rejection, quoted
from .plays import Slot
from .trial import Trial
from .types import DEFAULT_SETTINGS, Certificate, CertificateSettings, Gate, GateStatus, Verdict
from .values import gold_values, holds, instructions

if TYPE_CHECKING:
    from spade_environments.sandbox import Sandbox

__all__ = ["certify_hint"]

_LIST_NUMBER = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
_VERDICTS = {
    GateStatus.PASSED: Verdict.CERTIFIED,
    GateStatus.FAILED: Verdict.REJECTED,
    GateStatus.UNPROVEN: Verdict.UNPROVEN,
    GateStatus.UNDECIDED: Verdict.UNDECIDED,
}


async def certify_hint(
    spec: EnvironmentSpec,
    hint: str,
    sandbox: Sandbox,
    *,
    settings: CertificateSettings = DEFAULT_SETTINGS,
) -> Certificate:
    """Check a hint against the gold of every seed of a certified environment.

    Rejected are: an empty hint, one longer than `settings.hint_characters`, and one that holds, as a whole token, a
    value that some seed's `solution()` uses and that seed's instructions do not give.
    """

    async def gate(trial: Trial) -> str:
        return await _hint_gate(trial, hint)

    trial = Trial.of(spec, sandbox, settings)
    (result,) = await run_gates(trial, {Gate.HINT: gate})
    return Certificate(
        spec_id=spec.id,
        name=spec.name,
        verdict=_VERDICTS[result.status],
        gates=(result,),
        settings=settings,
        seeds=trial.seeds,
        sandbox_level=str(sandbox.level),
        limits=sandbox.limits,
        seconds=result.seconds,
        versions=versions(),
        hint=hint,
    )


async def _hint_gate(trial: Trial, hint: str) -> str:
    if not hint.strip():
        raise Rejection("the hint is empty", "Tell the key idea in one to three sentences.")
    if len(hint) > trial.settings.hint_characters:
        evidence = f"the hint has {len(hint)} characters; at most {trial.settings.hint_characters}"
        raise Rejection(evidence, "Keep the key idea and the form of the answer; leave out the rest.")
    env = await trial.children.env(Slot.FIRST)
    trial.description = env.description
    await trial.compute_gold()
    trial.demand_gold()
    plays = await trial.replay_gold(Slot.FIRST, trial.seeds)
    shown = _LIST_NUMBER.sub("", hint)
    # A small result is often that of an example.
    results = {result for result in computed(shown) if len(result) > 1}
    for seed, play in plays.items():
        given = instructions(play)
        for value in dict.fromkeys(gold_values(trial.gold[seed])):
            told = holds(shown, value) or value in results or (" " not in value and stands_disguised(shown, value))
            if told and not any(holds(text, value) for text in given):
                evidence = (
                    f"the hint holds {quoted(value)}, as it is or disguised, which solution() uses on seed {seed} "
                    "and no instruction gives"
                )
                raise Rejection(evidence, "Say how to find it instead.")
    return f"{len(hint)} characters, no value of {counted(len(plays), 'solution')}"
