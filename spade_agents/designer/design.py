"""Designing a set of environments: prompt, parse, certify, retry, admit, hint; every attempt is kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from spade_agents.agent.prompts import PromptStyle
from spade_agents.designer.attempts import AttemptVerdict, DesignAttempt, DesignOutcome
from spade_agents.designer.parse import parse_design, parse_hint
from spade_agents.designer.prompts import DesignRequest, design_messages, hint_messages
from spade_agents.designer.summary import class_name
from spade_agents.errors import ContextExhaustedError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Completion
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate, Verdict

__all__ = ["Certifier", "Designer", "DesignerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignerSettings:
    """How environments are asked for.

    Attributes:
        attempts: completions a slot may use.
        sampling, hint_sampling: of the program and of the hint.
        hint_tries: hints asked for before an environment is given up.
        repair: whether a retry shows the last attempt and what was wrong with it.
        style: of the prompts; `compact` for nano.
    """

    attempts: int = 5
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.6, max_tokens=16_384))
    hint_sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.3, max_tokens=4096))
    hint_tries: int = 3
    repair: bool = True
    style: PromptStyle = "full"


class Certifier(Protocol):
    """The certificate bound to a sandbox; many calls may run at once."""

    async def certify(self, spec: EnvironmentSpec) -> Certificate: ...

    async def certify_hint(self, spec: EnvironmentSpec, hint: str) -> Certificate: ...


def _admit_all(spec: EnvironmentSpec) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Designer:
    """The designer's role: a policy, the certificate, and an admission rule.

    Attributes:
        policy: writes programs and hints.
        certifier: proves them.
        settings: attempts, sampling, style.
        admit: called one at a time in slot order (novelty); says why not, or `None`.
    """

    policy: Policy
    certifier: Certifier
    settings: DesignerSettings
    admit: Callable[[EnvironmentSpec], str | None] = _admit_all

    async def design_set(self, requests: Sequence[DesignRequest], *, seed: int) -> tuple[DesignOutcome, ...]:
        """Fill one slot for each request.

        Slots go in lock-step rounds of attempts, so that the result does not depend on timing; each slot, attempt and
        hint try has its own seed below `seed`.

        Raises:
            InfrastructureError: the policy failed.
        """
        attempts: list[list[DesignAttempt]] = [[] for _ in requests]
        for number in range(self.settings.attempts):
            unfilled = [slot for slot, tried in enumerate(attempts) if not _filled(tried)]
            tried = await asyncio.gather(
                *(
                    self._attempt(requests[slot], attempts[slot], seed=derive_seed(seed, "design", slot, number))
                    for slot in unfilled
                )
            )
            judged = [self._judge(attempt) for attempt in tried]
            hinted = await asyncio.gather(
                *(
                    self._with_hint(attempt, seed=derive_seed(seed, "hint", slot, number))
                    for slot, attempt in zip(unfilled, judged, strict=True)
                )
            )
            for slot, attempt in zip(unfilled, hinted, strict=True):
                attempts[slot].append(attempt)
        return tuple(_outcome(request, tried) for request, tried in zip(requests, attempts, strict=True))

    async def _attempt(self, request: DesignRequest, earlier: Sequence[DesignAttempt], *, seed: int) -> DesignAttempt:
        completion = await self._written(request, earlier, seed=seed)
        parsed = parse_design(completion)
        if parsed.source is None:
            gate = parsed.fault.value if parsed.fault else ""
            return DesignAttempt(
                completion=completion, verdict=AttemptVerdict.REJECTED, gate=gate, repair=parsed.repair
            )
        spec = _spec(request, parsed.source)
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

    async def _written(self, request: DesignRequest, earlier: Sequence[DesignAttempt], *, seed: int) -> Completion:
        """The designer's answer; a repair that does not fit the context is asked for as if it were the first try."""
        first, sampling = design_messages(request, style=self.settings.style), self.settings.sampling
        if self.settings.repair and earlier:
            conversation = Conversation(messages=first + _repair_messages(earlier[-1]))
            with suppress(ContextExhaustedError):
                return await self.policy.complete(conversation, sampling, seed=seed)
        return await self.policy.complete(Conversation(messages=first), sampling, seed=seed)

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
        conversation = Conversation(messages=hint_messages(attempt.spec.source, style=self.settings.style))
        for number in range(self.settings.hint_tries):
            try:
                completion = await self.policy.complete(
                    conversation, self.settings.hint_sampling, seed=derive_seed(seed, number)
                )
            except ContextExhaustedError:  # a program that leaves no room for its hint cannot be admitted
                break
            hint = parse_hint(completion)
            if hint and (await self.certifier.certify_hint(attempt.spec, hint)).verdict is Verdict.CERTIFIED:
                return replace(attempt, spec=attempt.spec.with_hint(hint))
        return replace(attempt, verdict=AttemptVerdict.NO_HINT, gate="hint")


def _filled(attempts: Sequence[DesignAttempt]) -> bool:
    return bool(attempts) and attempts[-1].verdict is AttemptVerdict.CERTIFIED


def _outcome(request: DesignRequest, attempts: Sequence[DesignAttempt]) -> DesignOutcome:
    final = attempts[-1] if _filled(attempts) else None
    return DesignOutcome(
        request=request,
        attempts=tuple(attempts),
        spec=final.spec if final else None,
        certificate=final.certificate if final else None,
    )


def _repair_messages(attempt: DesignAttempt) -> tuple[Message, ...]:
    told = f"That was not accepted ({attempt.gate}): {attempt.repair}\nWrite the whole program again, mended."
    return Message(role="assistant", content=attempt.completion.text), Message(role="user", content=told)


def _spec(request: DesignRequest, source: str) -> EnvironmentSpec:
    return EnvironmentSpec(
        name=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name(source)).lower(),
        source=source,
        skill=request.skill,
        domain=request.domain,
        provenance={"kind": "designed", "document": request.document_id},
    )


def _verdict(verdict: Verdict) -> AttemptVerdict:
    if verdict is Verdict.CERTIFIED:
        return AttemptVerdict.CERTIFIED
    return AttemptVerdict.UNDECIDED if verdict is Verdict.UNDECIDED else AttemptVerdict.REJECTED
