"""What a nano can do: its designs (parsed, certified, distinct, new) and its solve rates, with and without hints."""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spade_agents.designer.corpus import Corpus, builtin_corpus
from spade_agents.designer.parse import parse_design, parse_hint
from spade_agents.designer.prompts import render_prompt
from spade_agents.designer.requests import DesignRequest, HintRequest
from spade_agents.messages import Conversation
from spade_agents.nano.family import family
from spade_agents.nano.heldout import HELD_OUT_SEEDS, heldout_specs
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.rollout.groups import GroupRequest, PlaySettings, play_groups
from spade_environments import TOOL_SKILLS, EnvironmentSpec
from spade_environments.certificate import Verdict, certify_hint, certify_many
from spade_environments.certificate.novelty import fingerprint
from spade_environments.sandbox import Sandbox, open_sandbox

__all__ = [
    "FINGERPRINTS",
    "MARK_BYTES",
    "DesignFigures",
    "measure",
    "measure_designs",
    "read_fingerprints",
    "solve_rates",
]

FINGERPRINTS = "warmup_fingerprints.bin"
MARK_BYTES = 6
"""Bytes of each fingerprint that the model's folder keeps."""

_DESIGN = Sampling(temperature=0.7, max_tokens=600)
_HINT = Sampling(temperature=0.3, max_tokens=80)
_PLAY = Sampling(max_tokens=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignFigures:
    """Counts among `asked` designs.

    Attributes:
        certified: passed every gate; `distinct` and `new` (by normalised syntax tree, new to the warm-up) among these.
        hinted: got a hint that passed its own gate, among the certified.
        largest_family: share of the certified ones that the largest family holds.
        reasons: how many failed at which gate.
    """

    asked: int
    parsed: int
    certified: int
    distinct: int
    new: int
    hinted: int
    largest_family: float
    reasons: dict[str, int]


def read_fingerprints(folder: Path) -> frozenset[bytes]:
    """The warm-up's fingerprints, `MARK_BYTES` each, from a nano's folder."""
    data = (folder / FINGERPRINTS).read_bytes()
    return frozenset(data[start : start + MARK_BYTES] for start in range(0, len(data), MARK_BYTES))


async def measure_designs(
    policy: Policy,
    sandbox: Sandbox,
    *,
    seen: frozenset[bytes],
    count: int = 64,
    seed: int = 0,
    corpus: Corpus | None = None,
) -> tuple[DesignFigures, tuple[EnvironmentSpec, ...]]:
    """Ask for `count` designs, skills in turn, one attempt each; also returns the certified ones, with their hints."""
    chosen = corpus or builtin_corpus(seed=seed)
    requests = [
        DesignRequest(skill=TOOL_SKILLS[index % len(TOOL_SKILLS)], document=chosen.at(index).text)
        for index in range(count)
    ]
    completions = await asyncio.gather(
        *(
            policy.complete(Conversation(messages=render_prompt(request, style="compact")), _DESIGN, seed=seed + index)
            for index, request in enumerate(requests)
        )
    )
    reasons: Counter[str] = Counter()
    specs: list[EnvironmentSpec] = []
    for request, completion in zip(requests, completions, strict=True):
        source = parse_design(completion).source
        if source is None or not _parses(source):
            reasons["parse"] += 1
            continue
        specs.append(EnvironmentSpec(name="designed", source=source, skill=request.skill))
    certificates = await certify_many(specs, sandbox)
    certified = [spec for spec, found in zip(specs, certificates, strict=True) if found.verdict is Verdict.CERTIFIED]
    reasons.update(found.reason.gate.value for found in certificates if found.reason is not None)
    hinted = await asyncio.gather(*(_with_hint(policy, sandbox, spec) for spec in certified))
    marks = {fingerprint(spec.source) for spec in certified}
    families = Counter(family(spec.source) for spec in certified)
    figures = DesignFigures(
        asked=count,
        parsed=len(specs),
        certified=len(certified),
        distinct=len(marks),
        new=sum(bytes.fromhex(mark)[:MARK_BYTES] not in seen for mark in marks),
        hinted=sum(spec.hint is not None for spec in hinted),
        largest_family=max(families.values(), default=0) / max(1, len(certified)),
        reasons=dict(reasons),
    )
    return figures, tuple(hinted)


async def solve_rates(policy: Policy, sandbox: Sandbox, *, programs: int = 100, seeds: int = 4) -> dict[str, Any]:
    """Mean returns on both held-out parts, without and with the hint, all on the same instances."""
    rates: dict[str, Any] = {}
    for part in ("known", "unseen"):
        specs = heldout_specs(part, programs)
        for arm in ("plain", "hinted"):
            requests = [
                GroupRequest(spec=spec, seeds=HELD_OUT_SEEDS[:seeds], hint=spec.hint if arm == "hinted" else None)
                for spec in specs
            ]
            groups = await play_groups(
                requests, sandbox, policy, settings=PlaySettings(sampling=_PLAY, style="compact")
            )
            rates[f"{part}_{arm}"] = _mean([value for group in groups for value in group.returns])
    return rates


async def measure(folder: Path, *, designs: int = 64, programs: int = 100, seeds: int = 4) -> dict[str, Any]:
    """All figures of a nano's folder, as JSON-able values: what its model card says."""
    from spade_agents.policy.torch_policy import TorchPolicy

    policy = TorchPolicy.from_folder(folder)
    try:
        async with open_sandbox() as sandbox:
            seen = read_fingerprints(folder)
            figures, _ = await measure_designs(policy, sandbox, seen=seen, count=designs)
            rates = await solve_rates(policy, sandbox, programs=programs, seeds=seeds)
    finally:
        policy.close()
    return {"designs": asdict(figures), "solve_rates": rates, "plays": programs * seeds}


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


async def _with_hint(policy: Policy, sandbox: Sandbox, spec: EnvironmentSpec) -> EnvironmentSpec:
    conversation = Conversation(messages=render_prompt(HintRequest(source=spec.source), style="compact"))
    hint = parse_hint(await policy.complete(conversation, _HINT, seed=0))
    if hint is None or (await certify_hint(spec, hint, sandbox)).verdict is not Verdict.CERTIFIED:
        return spec
    return spec.with_hint(hint)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
