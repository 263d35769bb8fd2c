"""Lineage: where an environment of a pool came from, what it passed, what became of it, and what was built on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spade_agents.selfplay.pool import OutcomeRow, Pool
from spade_environments.certificate import Certificate, GateStatus
from spade_environments.wording import counted

__all__ = ["Lineage", "Relative", "lineage_lines", "lineage_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A parent or child; its name is empty where it is not in this pool."""

    id: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The story of one environment.

    Attributes:
        provenance: as its spec has it: designer, prompt version, document, corpus, run, rollout.
        attempts: how each attempt of its slot ended, the last one being this environment.
        parents: shown to its designer; children: whose designers were shown it.
        certificate: `None` where none was kept.
        outcomes: rows, oldest first.
    """

    provenance: dict[str, Any]
    attempts: tuple[str, ...]
    parents: tuple[Relative, ...]
    children: tuple[Relative, ...]
    certificate: Certificate | None
    outcomes: tuple[OutcomeRow, ...]


def lineage_of(pool: Pool, identity: str) -> Lineage:
    """The story of an environment of a pool.

    Raises:
        UsageError: the pool is damaged.
    """
    specs = {each: pool.spec(each) for each in pool.ids()}
    provenance = dict(specs[identity].provenance)
    parents = _listed(provenance, "parents")
    children = [each for each, spec in specs.items() if identity in _listed(spec.provenance, "parents")]
    return Lineage(
        provenance=provenance,
        attempts=_listed(provenance, "attempts"),
        parents=tuple(Relative(id=each, name=specs[each].name if each in specs else "") for each in parents),
        children=tuple(Relative(id=each, name=specs[each].name) for each in children),
        certificate=pool.certificate(identity),
        outcomes=pool.outcomes(identity),
    )


def _listed(provenance: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list in a provenance, which may come from anywhere; what is none is one that says a single thing."""
    found = provenance.get(name, ())
    return tuple(map(str, found if isinstance(found, list | tuple) else [found]))


def lineage_lines(story: Lineage) -> Iterator[str]:
    """The story, one sentence a line."""
    told = story.provenance
    known = {name: told[name] for name in ("run", "rollout", "designer", "prompt") if told.get(name) not in (None, "")}
    if known:
        yield "designed: " + ", ".join(f"{name} {value}" for name, value in known.items())
    if told.get("document"):
        corpus = f" of corpus {told['corpus']}" if told.get("corpus") else ""
        yield f"grounded in: {told['document']}{corpus}"
    for name in ("form", "variant"):
        if told.get(name):
            yield f"asked for: {told[name]}"
    yield from (f"parent: {_named(each)}" for each in story.parents)
    yield from (f"attempt {number}: {how}" for number, how in enumerate(story.attempts, 1))
    yield from _certificate(story.certificate)
    yield from (f"rollout {row.rollout}: {_outcome(row)}" for row in story.outcomes)
    yield from (f"child: {_named(each)}" for each in story.children)


def _named(relative: Relative) -> str:
    return f"{relative.id[:12]} {relative.name or '(not in this pool)'}"


def _certificate(found: Certificate | None) -> Iterator[str]:
    if found is None:
        return
    passed = sum(gate.status is GateStatus.PASSED for gate in found.gates)
    steps = f", solution of {min(found.gold_lengths)} to {max(found.gold_lengths)} steps" if found.gold_lengths else ""
    yield f"certificate: {found.verdict.value}, {counted(passed, 'gate')} passed on {len(found.seeds)} seeds{steps}"


def _outcome(row: OutcomeRow) -> str:
    parts = [f"{counted(len(row.unhinted), 'play')} without hint, {len(row.hinted)} with"]
    if row.win_rate is not None:
        parts.append(f"win rate {row.win_rate:.2f}")
    if row.regret is not None:
        parts.append(f"regret {row.regret:+.3f} ({row.regime})")
    if row.fault:
        parts.append(f"retired: {row.fault}")
    return ", ".join(parts)
