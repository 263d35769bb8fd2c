"""The first half of a cycle: close the set whose window is over, and make the next one."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from spade_agents.designer.attempts import AttemptVerdict, DesignAttempt, DesignOutcome
from spade_agents.designer.corpus import Corpus
from spade_agents.designer.design import Designer
from spade_agents.designer.memory import Memory, MemoryRecord
from spade_agents.designer.prompts import DesignRequest
from spade_agents.rewards import PotentialState, score_designs
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.pool import Pool
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.settings import DesignedPool, FrontierPool, RunSettings, SelfDesigner, StaticPool
from spade_agents.selfplay.state import EnvironmentSet, LoopState, SetMember, WaitingDesign
from spade_agents.trajectory import Role, TrainingSample, sample_from
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate, certify, certify_hint, fingerprint

__all__ = ["NOTHING_CLOSED", "ClosedSet", "DesignFigures", "NewSet", "close_set", "design_requests", "make_set"]


CERTIFIED_AT_ONCE: Final = 8
"""Environments in the certificate at a time: it keeps a few children alive for each."""


class ClosedSet(NamedTuple):
    """What a set leaves when its window is over: its designs with their raw rewards, and the averages after it."""

    raw: tuple[float | None, ...]
    designs: tuple[WaitingDesign, ...]
    potential: PotentialState


NOTHING_CLOSED = ClosedSet((), (), PotentialState())


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignFigures:
    """What a regeneration's row of metrics tells of it.

    Attributes:
        slots: asked for.
        admitted: environments that entered the pool.
        verdicts: attempts by verdict.
        gates: rejected attempts by the gate (or fault of the completion) that refused them.
        distinct: normalised syntax trees among the programs of all attempts.
        programs: attempts that held a program that parses.
    """

    slots: int = 0
    admitted: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    gates: Mapping[str, int] = field(default_factory=dict)
    distinct: int = 0
    programs: int = 0

    @property
    def certified_share(self) -> float | None:
        """Certified attempts among those that could be decided (one refused for novelty alone is not certified)."""
        decided = sum(count for verdict, count in self.verdicts.items() if verdict != AttemptVerdict.UNDECIDED)
        passed = self.verdicts.get(AttemptVerdict.CERTIFIED, 0) + self.verdicts.get(AttemptVerdict.NO_HINT, 0)
        return passed / decided if decided else None

    def row(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "slots": self.slots,
            "admitted": self.admitted,
            "attempts": sum(self.verdicts.values()),
            "certified_share": self.certified_share,
            "verdicts": dict(self.verdicts),
            "gates": dict(self.gates),
            "programs": self.programs,
            "distinct": self.distinct,
        }


class NewSet(NamedTuple):
    """The state that holds a set ready to be played, and figures for the metrics."""

    state: LoopState
    figures: DesignFigures


def close_set(resources: Resources, state: LoopState) -> ClosedSet:
    """Score the designs of the set in play by its whole window and remember its environments; it is then over."""
    current = state.current
    if current is None:
        return NOTHING_CLOSED._replace(potential=state.potential)
    for member in current.members:
        arms, win_rate = member.arms, member.win_rate
        if win_rate is not None and not member.fault:
            record = MemoryRecord(
                environment_id=member.spec.id,
                source=member.spec.source,
                skill=member.spec.skill,
                win_rate=win_rate,
                regret=arms.raw if arms else 0.0,
                rollout=state.rollout,
            )
            resources.memory.add(record)
    scored = score_designs(resources.settings.reward, current.results(), state.potential)
    return ClosedSet(scored.raw, current.designs, scored.state)


async def make_set(resources: Resources, state: LoopState) -> NewSet:
    """The next set, by the configured kind of pool."""
    selfplay = resources.settings.selfplay
    match selfplay.pool:
        case DesignedPool():
            return await _design(resources, state)
        case StaticPool() | FrontierPool() as fixed:
            specs = _drawn(resources, state, fixed)
            admitted = _admitted(resources.pool, state.pool, [(spec, None) for spec in specs])
            members = tuple(SetMember(spec=spec) for spec in specs)
            current = EnvironmentSet(rollout=state.rollout, members=members)
            return NewSet(replace(state, current=current, pool=admitted), DesignFigures())
        case _:
            return NewSet(replace(state, current=EnvironmentSet(rollout=state.rollout)), DesignFigures())


async def _design(resources: Resources, state: LoopState) -> NewSet:
    settings = resources.settings
    count = settings.selfplay.environments
    requests = design_requests(settings, state, resources.memory, resources.corpus, count)
    designer = Designer(
        policy=resources.designer,
        certifier=_Certifier(resources),
        settings=settings.designer.call,
        admit=_novelty_rule(resources),
    )
    outcomes = await designer.design_set(requests, seed=derive_seed(settings.run.seed, "design", state.rollout))
    found = [_with_origin(resources, state, outcome) for outcome in outcomes if outcome.spec is not None]
    admitted = _admitted(resources.pool, state.pool, [(o.spec, o.certificate) for o in found if o.spec is not None])
    specs = {outcome.spec.id: outcome.spec for outcome in found if outcome.spec is not None}
    for spec in specs.values():
        resources.remember_novelty(spec)
    current = EnvironmentSet(
        rollout=state.rollout,
        members=tuple(SetMember(spec=spec) for spec in specs.values()),
        designs=_waiting(outcomes) if isinstance(settings.designer.policy, SelfDesigner) else (),
    )
    after = replace(
        state,
        current=current,
        pool=admitted,
        corpus_position=state.corpus_position + (len(requests) if resources.corpus else 0),
        skill_position=state.skill_position + len(requests),
    )
    resources.directory.write_designs(state.rollout, outcomes)
    return NewSet(after, _figures(outcomes, len(specs)))


def design_requests(
    settings: RunSettings, state: LoopState, memory: Memory, corpus: Corpus | None, count: int
) -> list[DesignRequest]:
    """One request a slot: the next skill in turn, the next document, memory seeds of that skill."""
    requests = []
    skills = settings.designer.skills
    for slot in range(count):
        skill = skills[(state.skill_position + slot) % len(skills)]
        rng = random.Random(derive_seed(settings.run.seed, "memory", state.rollout, slot))
        request = DesignRequest(skill=skill, seeds=memory.seeds(skill, rng))
        if corpus is not None:
            document = corpus.at(state.corpus_position + slot)
            text = document.words(settings.designer.corpus_words)
            request = replace(request, document=text, document_id=document.id, domain=document.domain)
        requests.append(request)
    return requests


class _Certifier:
    """The certificate bound to the run's sandbox, a few environments at a time."""

    def __init__(self, resources: Resources) -> None:
        self._sandbox = resources.sandbox
        self._settings = resources.settings.certificate
        self._places = asyncio.Semaphore(CERTIFIED_AT_ONCE)

    async def certify(self, spec: EnvironmentSpec) -> Certificate:
        async with self._places:
            return await certify(spec, self._sandbox, settings=self._settings)

    async def certify_hint(self, spec: EnvironmentSpec, hint: str) -> Certificate:
        async with self._places:
            return await certify_hint(spec, hint, self._sandbox, settings=self._settings)


def _novelty_rule(resources: Resources) -> Callable[[EnvironmentSpec], str | None]:
    """The admission rule: unlike everything in the pool and in this set; it remembers what it lets in."""
    in_this_set = resources.empty_novelty()

    def admit(spec: EnvironmentSpec) -> str | None:
        if resources.novelty is None or in_this_set is None:
            return None
        for index in (resources.novelty, in_this_set):
            new, evidence = index.admits(spec.source)
            if not new:
                return f"{evidence}: write something of another structure"
        in_this_set.add(spec.name, spec.source)
        return None

    return admit


def _with_origin(resources: Resources, state: LoopState, outcome: DesignOutcome) -> DesignOutcome:
    """The outcome with run and rollout in its spec's provenance."""
    assert outcome.spec is not None
    origin = {**outcome.spec.provenance, "run": resources.settings.run.name, "rollout": state.rollout}
    return replace(outcome, spec=replace(outcome.spec, provenance=origin))


def _admitted(
    pool: Pool, known: tuple[str, ...], found: Sequence[tuple[EnvironmentSpec, Certificate | None]]
) -> tuple[str, ...]:
    """Put environments into the pool; the ids of all that are in it now."""
    ids = dict.fromkeys(known)
    for spec, certificate in found:
        if spec.id not in ids:
            pool.add(spec, certificate)
        ids[spec.id] = None
    pool.index(tuple(ids))
    return tuple(ids)


def _waiting(outcomes: Sequence[DesignOutcome]) -> tuple[WaitingDesign, ...]:
    """Certified and rejected attempts as designer samples; undecided ones and those without a hint are none."""
    return tuple(
        WaitingDesign(
            skill=outcome.request.skill.value,
            environment_id=attempt.spec.id if attempt.verdict is AttemptVerdict.CERTIFIED and attempt.spec else "",
            sample=_sample(attempt, outcome.request.skill.value),
        )
        for outcome in outcomes
        for attempt in outcome.attempts
        if attempt.verdict in (AttemptVerdict.CERTIFIED, AttemptVerdict.REJECTED)
    )


def _sample(attempt: DesignAttempt, skill: str) -> TrainingSample | None:
    if not attempt.completion.token_ids:
        return None
    return sample_from([attempt.completion], advantage=0.0, group=skill, role=Role.DESIGNER)


def _drawn(resources: Resources, state: LoopState, pool: StaticPool | FrontierPool) -> tuple[EnvironmentSpec, ...]:
    """A set from the fixed pool: any of it, or those of middling win rate first."""
    specs, count = resources.fixed_pool, min(resources.settings.selfplay.environments, len(resources.fixed_pool))
    rng = random.Random(derive_seed(resources.settings.run.seed, "draw", state.rollout))
    shuffled = rng.sample(specs, len(specs))
    if isinstance(pool, StaticPool):
        return tuple(shuffled[:count])
    rates = {record.environment_id: record.win_rate for record in resources.memory.records}
    middling = [spec for spec in shuffled if pool.low <= rates.get(spec.id, -1.0) <= pool.high]
    chosen = middling[: count - round(pool.explore * count)]
    rest = [spec for spec in shuffled if spec not in chosen]
    return tuple([*chosen, *rest][:count])


def _figures(outcomes: Sequence[DesignOutcome], admitted: int) -> DesignFigures:
    attempts = [attempt for outcome in outcomes for attempt in outcome.attempts]
    rejected = [attempt for attempt in attempts if attempt.verdict is AttemptVerdict.REJECTED]
    marks = [mark for attempt in attempts if attempt.spec and (mark := _mark(attempt.spec.source))]
    return DesignFigures(
        slots=len(outcomes),
        admitted=admitted,
        verdicts=Counter(attempt.verdict.value for attempt in attempts),
        gates=Counter(str(attempt.gate) for attempt in rejected),
        distinct=len(set(marks)),
        programs=len(marks),
    )


def _mark(source: str) -> str | None:
    try:
        return fingerprint(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
