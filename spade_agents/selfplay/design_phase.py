"""The first half of a cycle: close the set whose window is over, and make the next one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from spade_agents.designer.assignment import Assignment
from spade_agents.designer.attempts import AttemptVerdict, DesignAttempt, DesignOutcome
from spade_agents.designer.corpus import Corpus
from spade_agents.designer.design import Designer
from spade_agents.designer.memory import Memory, MemoryRecord
from spade_agents.designer.requests import DesignRequest
from spade_agents.rewards import reward_at, score_designs
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.admission import SandboxCertifier, novelty_rule
from spade_agents.selfplay.design_figures import DesignFigures, design_figures, newest_programs
from spade_agents.selfplay.pool import Pool
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.settings import DesignedPool, FrontierPool, OwnPool, RunSettings, SelfDesigner, StaticPool
from spade_agents.selfplay.state import (
    NOTHING_CLOSED,
    ClosedSet,
    EnvironmentSet,
    LoopState,
    SetMember,
    WaitingDesign,
)
from spade_agents.trajectory import Role, TrainingSample, sample_from
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate

__all__ = ["NewSet", "close_set", "design_requests", "make_set"]


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
        if member.window:
            resources.memory.add(_record(resources, member, state.rollout))
    reward = reward_at(resources.settings.reward, current.rollout)
    scored = score_designs(reward, current.results(), state.potential)
    return ClosedSet(scored.raw, current.designs, scored.state)


def _record(resources: Resources, member: SetMember, rollout: int) -> MemoryRecord:
    """What is remembered of an environment whose window is over."""
    spec, arms = member.spec, member.arms
    certificate = resources.pool.certificate(spec.id)
    return MemoryRecord(
        environment_id=spec.id,
        source=spec.source,
        skill=spec.skill,
        win_rate=member.win_rate,
        regret=arms.raw if arms else None,
        rollout=rollout,
        name=spec.name,
        domain=spec.domain,
        hint=spec.hint,
        hinted=member.hinted,
        unhinted=member.unhinted,
        window=member.window,
        fault=member.fault,
        certificate=certificate.to_json() if certificate else None,
        parents=tuple(spec.provenance.get("parents", ())),
        document=str(spec.provenance.get("document", "")),
    )


async def make_set(resources: Resources, state: LoopState) -> NewSet:
    """The next set, by the configured kind of pool."""
    selfplay = resources.settings.selfplay
    match selfplay.pool:
        case DesignedPool():
            return await _design(resources, state)
        case StaticPool() | FrontierPool() | OwnPool() as fixed:
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
        certifier=SandboxCertifier(resources.sandbox, settings.certificate),
        settings=settings.designer.call,
        admit=novelty_rule(resources.novelty),
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
    recent = newest_programs(outcomes, state.recent, settings.collapse)
    after = replace(
        state,
        current=current,
        recent=recent,
        pool=admitted,
        corpus_position=state.corpus_position + (len(requests) if resources.corpus else 0),
        skill_position=state.skill_position + len(requests),
    )
    resources.directory.write_designs(state.rollout, outcomes)
    return NewSet(after, design_figures(outcomes, len(specs), recent, settings.collapse))


def design_requests(
    settings: RunSettings, state: LoopState, memory: Memory, corpus: Corpus | None, count: int
) -> list[DesignRequest]:
    """One request a slot: the next skill in turn, the next document, memory seeds of that skill."""
    table, root = settings.designer, settings.run.seed
    assignment = Assignment(
        settings=table.assignment,
        style=table.call.style,
        corpus=corpus,
        words=table.corpus_words,
        memory=memory,
    )
    return [
        assignment.request(
            table.skills[(state.skill_position + slot) % len(table.skills)],
            position=state.corpus_position + slot,
            seed=derive_seed(root, "assignment", state.rollout, slot),
            memory_seed=derive_seed(root, "memory", state.rollout, slot),
        )
        for slot in range(count)
    ]


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


def _drawn(
    resources: Resources, state: LoopState, pool: StaticPool | FrontierPool | OwnPool
) -> tuple[EnvironmentSpec, ...]:
    """A set from the fixed pool: any of it, or those of middling win rate first."""
    specs, count = resources.fixed_pool, min(resources.settings.selfplay.environments, len(resources.fixed_pool))
    rng = random.Random(derive_seed(resources.settings.run.seed, "draw", state.rollout))
    shuffled = rng.sample(specs, len(specs))
    if not isinstance(pool, FrontierPool):
        return tuple(shuffled[:count])
    rates = resources.memory.win_rates()
    middling = [spec for spec in shuffled if pool.low <= rates.get(spec.id, -1.0) <= pool.high]
    chosen = middling[: count - round(pool.explore * count)]
    rest = [spec for spec in shuffled if spec not in chosen]
    return tuple([*chosen, *rest][:count])
