"""Designing a set of environments: prompt, parse, certify, retry, admit, hint; every attempt is kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

from spade_agents.agent.prompts import PromptStyle
from spade_agents.designer.attempts import AttemptVerdict, DesignAttempt, DesignOutcome
from spade_agents.designer.parse import MAX_SOURCE_BYTES, SUBMIT, DesignFault, ParsedDesign, parse_design, parse_hint
from spade_agents.designer.prompts import prompt_version, render_prompt
from spade_agents.designer.requests import DesignRequest, HintRequest, OutputForm, RepairRequest
from spade_agents.designer.summary import class_name
from spade_agents.errors import ContextExhaustedError, InfrastructureError, SpadeError
from spade_agents.messages import Conversation
from spade_agents.policy.budget import BudgetSpentError
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Completion
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate, Verdict

__all__ = ["GATE_BUDGET", "GATE_CONTEXT", "GATE_INFRASTRUCTURE", "Certifier", "Designer", "DesignerSettings"]

GATE_CONTEXT: Final = "context"
GATE_INFRASTRUCTURE: Final = "infrastructure"
GATE_BUDGET: Final = "budget"
"""What stands in the place of a gate where the prompt does not fit, the policy failed, or may not be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignerSettings:
    """How environments are asked for.

    Attributes:
        attempts: completions a slot may use.
        sampling, hint_sampling: of the program and of the hint.
        hint_tries: hints asked for before an environment is given up.
        repair: whether a retry shows the last attempt and what was wrong with it.
        style: of the prompts; `compact` for nano.
        output: one fenced block, or a call of `submit_environment` where the model can.
        max_source_bytes: longer programs are not looked at.
    """

    attempts: int = 5
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.6, max_tokens=16_384))
    hint_sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.3, max_tokens=4096))
    hint_tries: int = 3
    repair: bool = True
    style: PromptStyle = "full"
    output: OutputForm = OutputForm.BLOCK
    max_source_bytes: int = MAX_SOURCE_BYTES

    def __post_init__(self) -> None:
        for name in ("attempts", "hint_tries", "max_source_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted at least 1")


class Certifier(Protocol):
    """The certificate bound to a sandbox; many calls may run at once."""

    async def certify(self, spec: EnvironmentSpec) -> Certificate: ...

    async def certify_hint(self, spec: EnvironmentSpec, hint: str) -> Certificate: ...


def _admit_all(spec: EnvironmentSpec) -> str | None:
    return None


def _nothing_is_known(spec: EnvironmentSpec) -> bool:
    return False


_NOT_THE_DESIGNER = (GATE_CONTEXT, GATE_INFRASTRUCTURE, GATE_BUDGET)

Report = Callable[[int, DesignOutcome], None]


class _Written(NamedTuple):
    """A completion, and whether its prompt was a repair."""

    completion: Completion
    repaired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Designer:
    """The designer's role: a policy, the certificate, and an admission rule.

    Attributes:
        policy: writes programs and hints.
        certifier: proves them.
        settings: attempts, sampling, style.
        admit: called one at a time in slot order (novelty); says why not, or `None`.
        known: whether an environment is there already, to the letter; then it is not certified again.
        bears_faults: whether a policy that fails costs its slot alone, as an undecided attempt, and no error.
    """

    policy: Policy
    certifier: Certifier
    settings: DesignerSettings
    admit: Callable[[EnvironmentSpec], str | None] = _admit_all
    known: Callable[[EnvironmentSpec], bool] = _nothing_is_known
    bears_faults: bool = False

    async def design_set(
        self,
        requests: Sequence[DesignRequest],
        *,
        seed: int,
        numbers: Sequence[int] | None = None,
        report: Report | None = None,
    ) -> tuple[DesignOutcome, ...]:
        """Fill one slot for each request.

        Slots go in lock-step rounds of attempts, so that the result does not depend on timing; each slot, attempt and
        hint try has its own seed below `seed`.

        Args:
            requests: one a slot.
            seed: of everything sampled.
            numbers: of the slots, which their seeds depend on; 0, 1, 2 … unless given.
            report: called with number and outcome of each slot as soon as it is decided.

        Raises:
            InfrastructureError: the policy failed, and the designer bears no faults.
        """
        slots = tuple(numbers) if numbers is not None else tuple(range(len(requests)))
        asked = dict(zip(slots, requests, strict=True))
        attempts: dict[int, list[DesignAttempt]] = {slot: [] for slot in slots}
        for number in range(self.settings.attempts):
            unfilled = [slot for slot, tried in attempts.items() if not _ended(tried)]
            tried = await _together(
                self._attempt(asked[slot], attempts[slot], seed=derive_seed(seed, "design", slot, number))
                for slot in unfilled
            )
            judged = [self._judge(attempt) for attempt in tried]
            hinted = await _together(
                self._with_hint(attempt, seed=derive_seed(seed, "hint", slot, number))
                for slot, attempt in zip(unfilled, judged, strict=True)
            )
            for slot, attempt in zip(unfilled, hinted, strict=True):
                attempts[slot].append(attempt)
                if report and (_ended(attempts[slot]) or number + 1 == self.settings.attempts):
                    report(slot, _outcome(asked[slot], attempts[slot]))
        return tuple(_outcome(asked[slot], attempts[slot]) for slot in slots)

    async def _attempt(self, request: DesignRequest, earlier: Sequence[DesignAttempt], *, seed: int) -> DesignAttempt:
        try:
            written = await self._written(request, earlier, seed=seed)
        except ContextExhaustedError as error:
            return _undecided(GATE_CONTEXT, error)
        except InfrastructureError as error:
            if not self.bears_faults:
                raise
            return _undecided(_gate_of(error), error)
        attempt = await self._examined(request, written.completion)
        return replace(attempt, repaired=written.repaired)

    async def _examined(self, request: DesignRequest, completion: Completion) -> DesignAttempt:
        # What was trained on the compact prompts ends with its program; only others go on to explain theirs.
        parsed = parse_design(
            completion,
            max_bytes=self.settings.max_source_bytes,
            cut_after_block=self.settings.style == "full",
        )
        if parsed.source is None:
            gate = parsed.fault.value if parsed.fault else ""
            return DesignAttempt(
                completion=completion, verdict=AttemptVerdict.REJECTED, gate=gate, repair=parsed.repair
            )
        spec = self._spec(request, parsed, parsed.source)
        if self.known(spec):
            told = "this very environment is there already: write another one"
            return DesignAttempt(
                completion=completion,
                verdict=AttemptVerdict.REJECTED,
                gate=DesignFault.DUPLICATE.value,
                repair=told,
                spec=spec,
            )
        certificate = await self.certifier.certify(spec)
        reason = certificate.reason
        return DesignAttempt(
            completion=completion,
            verdict=_verdict(certificate.verdict),
            gate=reason.gate.value if reason else "",
            repair=certificate.repair,
            spec=spec,
            certificate=certificate,
        )

    async def _written(self, request: DesignRequest, earlier: Sequence[DesignAttempt], *, seed: int) -> _Written:
        """The designer's answer; a repair that does not fit the context is asked for as if it were the first try."""
        settings, last = self.settings, earlier[-1] if earlier else None
        tools = (SUBMIT,) if settings.output == OutputForm.CALL else ()
        asked = replace(request, output=settings.output)
        opening = Conversation(messages=render_prompt(asked, style=settings.style), tools=tools)
        if settings.repair and last is not None and last.verdict is not AttemptVerdict.UNDECIDED:
            mended = opening.then(*render_prompt(_repair(last), style=settings.style))
            try:
                return _Written(await self.policy.complete(mended, settings.sampling, seed=seed), repaired=True)
            except ContextExhaustedError:
                pass
        return _Written(await self.policy.complete(opening, settings.sampling, seed=seed), repaired=False)

    def _judge(self, attempt: DesignAttempt) -> DesignAttempt:
        if attempt.verdict is not AttemptVerdict.CERTIFIED or attempt.spec is None:
            return attempt
        reason = self.admit(attempt.spec)
        if reason is None:
            return attempt
        return replace(attempt, verdict=AttemptVerdict.REJECTED, gate="novelty", repair=reason)

    async def _with_hint(self, attempt: DesignAttempt, *, seed: int) -> DesignAttempt:
        """A certified attempt with its hint; one that gets none is not admitted after all."""
        if attempt.verdict is not AttemptVerdict.CERTIFIED or attempt.spec is None:
            return attempt
        request = HintRequest(source=attempt.spec.source)
        conversation = Conversation(messages=render_prompt(request, style=self.settings.style))
        asked = 0
        for number in range(self.settings.hint_tries):
            try:
                completion = await self.policy.complete(
                    conversation, self.settings.hint_sampling, seed=derive_seed(seed, number)
                )
            except ContextExhaustedError:  # a program that leaves no room for its hint cannot be admitted
                break
            except InfrastructureError as error:
                if not self.bears_faults:
                    raise
                failed = _undecided(_gate_of(error), error)
                return replace(attempt, verdict=failed.verdict, gate=failed.gate, repair=failed.repair, hints=asked)
            asked += 1
            hint = parse_hint(completion)
            if hint and (await self.certifier.certify_hint(attempt.spec, hint)).verdict is Verdict.CERTIFIED:
                return replace(attempt, spec=attempt.spec.with_hint(hint), hints=asked)
        told = "no hint could be written for it that helps and gives no value away"
        return replace(attempt, verdict=AttemptVerdict.NO_HINT, gate="hint", repair=told, hints=asked)

    def _spec(self, request: DesignRequest, parsed: ParsedDesign, source: str) -> EnvironmentSpec:
        manifest = parsed.manifest
        told: dict[str, Any] = {"kind": "designed", "document": request.document_id}
        more = {
            "corpus": request.corpus,
            "parents": [seed.environment_id for seed in request.seeds if seed.environment_id],
            "prompt": prompt_version(self.settings.style),
            "designer": self.policy.info.name,
            "form": request.form.value if request.form else "",
            "variant": request.variant.value if request.variant else "",
            "named_skill": manifest.skill.value if manifest.skill not in (None, request.skill) else "",
        }
        return EnvironmentSpec(
            name=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name(source)).lower(),
            source=source,
            skill=request.skill,
            domain=manifest.domain or request.domain,
            difficulty=request.target if manifest.difficulty is None else manifest.difficulty,
            provenance=told | {key: value for key, value in more.items() if value},
        )


async def _together(attempts: Iterable[Coroutine[Any, Any, DesignAttempt]]) -> list[DesignAttempt]:
    """All of them at once; where one raises, the others are called off before it is told."""
    tasks = [asyncio.ensure_future(attempt) for attempt in attempts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _filled(attempts: Sequence[DesignAttempt]) -> bool:
    return bool(attempts) and attempts[-1].verdict is AttemptVerdict.CERTIFIED


def _ended(attempts: Sequence[DesignAttempt]) -> bool:
    """Whether another attempt is of no use: the slot is filled, or what failed is not the designer."""
    return _filled(attempts) or (bool(attempts) and attempts[-1].gate in _NOT_THE_DESIGNER)


def _gate_of(error: InfrastructureError) -> str:
    return GATE_BUDGET if isinstance(error, BudgetSpentError) else GATE_INFRASTRUCTURE


def _undecided(gate: str, error: SpadeError) -> DesignAttempt:
    return DesignAttempt(completion=Completion(text=""), verdict=AttemptVerdict.UNDECIDED, gate=gate, repair=str(error))


def _outcome(request: DesignRequest, attempts: Sequence[DesignAttempt]) -> DesignOutcome:
    final = attempts[-1] if _filled(attempts) else None
    spec = final.spec if final else None
    if spec is not None:
        spec = replace(spec, provenance={**spec.provenance, "attempts": [attempt.told for attempt in attempts]})
    return DesignOutcome(
        request=request, attempts=tuple(attempts), spec=spec, certificate=final.certificate if final else None
    )


def _repair(attempt: DesignAttempt) -> RepairRequest:
    completion = attempt.completion
    return RepairRequest(written=completion.text, calls=completion.calls, gate=attempt.gate, repair=attempt.repair)


def _verdict(verdict: Verdict) -> AttemptVerdict:
    if verdict is Verdict.CERTIFIED:
        return AttemptVerdict.CERTIFIED
    return AttemptVerdict.UNDECIDED if verdict is Verdict.UNDECIDED else AttemptVerdict.REJECTED
