"""What is measured of a finished run: held-out plays, the environments it trained on, and the designs of a pair."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from designs import diversity_of, drawn_designs

from spade_agents.designer.corpus import Corpus
from spade_agents.designer.requests import DesignRequest
from spade_agents.policy import open_policy
from spade_agents.rollout import GroupRequest, play_groups
from spade_agents.seeds import derive_seed
from spade_agents.selfplay import RunSettings
from spade_agents.selfplay.checkpoint import newest_stable
from spade_agents.selfplay.pool import OutcomeRow, Pool
from spade_agents.selfplay.preflight import make_evaluator, open_corpus
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.settings import load_settings
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Verdict, certify_many
from spade_environments.sandbox import open_sandbox

__all__ = ["NEWEST", "designs_of_a_pair", "held_out", "run_figures", "sets_played"]

NEWEST = 32
"""Environments whose diversity is measured: the same number for every arm, since the Vendi score depends on it."""
UNMET = 10_000
"""Position in the corpus from which the designs of a pair are grounded: not where the runs began."""
HELD_OUT = (
    "evaluation.evaluator=spade_evals.environments:held_out",
    'evaluation.parts={"known families" = "spade_agents.nano.heldout:heldout_specs(known)"}',
)

Row = dict[str, Any]


def run_figures(run: Path, *, plays: int, source: Path | None) -> Row:
    """All that a table needs of a finished run.

    Args:
        run: its directory.
        plays: held-out plays of the known families.
        source: of its fixed pool, whose certificates the run does not keep; `None` for a run that designed.
    """
    directory = RunDirectory.open(run)
    settings = directory.settings
    pool = Pool(directory.environments)
    outcomes = {identity: pool.outcomes(identity) for identity in pool.ids()}
    sets = sets_played(outcomes, period=settings.selfplay.period)
    proofs = Pool(source) if source else pool
    rows = directory.metrics.rows()
    return {
        "rollouts": settings.run.rollouts,
        "commit": directory.manifest.get("git_commit"),
        "seconds": round(sum(sum(row.get("seconds", {}).values()) for row in rows)),
        "held_out": asyncio.run(held_out(newest_stable(directory.checkpoints).model, run / "config.toml", plays)),
        "sets": sets,
        "gold_steps": {identity: _gold_steps(proofs, identity) for identity in outcomes},
        "diversity": msgspec.to_builtins(
            diversity_of([pool.spec(played["id"]).source for one in sets for played in one["environments"]][-NEWEST:])
        ),
        "designs": [row["design"] for row in rows if "design" in row],
        "designer": [_designer(row) for row in rows if row.get("train", {}).get("designer")],
    }


def sets_played(outcomes: dict[str, Sequence[OutcomeRow]], *, period: int) -> list[Row]:
    """The sets of a run in order, each with the win rate over its whole window of every environment in it."""
    found: dict[int, list[Row]] = {}
    for identity, rows in outcomes.items():
        last = {row.rollout // period: row for row in rows}
        first = {row.rollout // period: row for row in reversed(rows)}
        for number, row in last.items():
            regret = first[number].regret
            entry = {"id": identity, "win_rate": row.win_rate, "regret": regret, "fault": row.fault}
            found.setdefault(number, []).append(entry)
    return [{"rollout": number * period, "environments": found[number]} for number in sorted(found)]


async def held_out(model: Path | str, config: Path, plays: int) -> Row:
    """Plays of the known families by the weights at `model`: the same ones for every run.

    Args:
        model: the weights, as `open_policy` takes them.
        config: a run's configuration, whose sandbox and sampling are taken.
        plays: how many.
    """
    asked = load_settings(RunSettings, config, [*HELD_OUT, f"evaluation.plays={plays}"])
    async with open_sandbox(asked.sandbox) as sandbox, open_policy(str(model)) as policy:
        evaluator = make_evaluator(asked, sandbox)
        assert evaluator is not None
        summary = await evaluator(policy, step=0, seed=asked.evaluation.seed)
    (part,) = summary.parts.values()
    return msgspec.to_builtins(part)


async def designs_of_a_pair(runs: dict[str, Path], start: str, *, designs: int, plays: int) -> Row:
    """Designs of two designers on the same requests, all of them played by the agents of both runs.

    The trained designer is the last weights of the run `spade`, the frozen one the start weights. Requests are of equal
    skills and documents, without memory, so that the weights alone differ. One attempt each.

    Args:
        runs: directories of the finished runs `spade` and `frozen`.
        start: the start checkpoint.
        designs: asked of each designer.
        plays: of each certified design by each agent, on the same instances.
    """
    directory = RunDirectory.open(runs["spade"])
    settings = directory.settings
    corpus = open_corpus(settings)
    assert corpus is not None
    requests = _requests(settings, corpus, designs)
    models = {name: newest_stable(RunDirectory.open(path).checkpoints).model for name, path in runs.items()}
    brought: Row = {}
    async with open_sandbox(settings.sandbox) as sandbox:
        for name, target in {"spade": str(models["spade"]), "frozen": start}.items():
            specs = await _written(target, requests, settings)
            proofs = await certify_many(specs, sandbox, settings=settings.certificate)
            certified = [s for s, proof in zip(specs, proofs, strict=True) if proof.verdict is Verdict.CERTIFIED]
            brought[name] = {
                "asked": len(requests),
                "programs": len(specs),
                "gates": dict(Counter(proof.reason.gate.value for proof in proofs if proof.reason)),
                "undecided": sum(proof.verdict is Verdict.UNDECIDED for proof in proofs),
                "sources": [spec.source for spec in certified],
                "diversity": msgspec.to_builtins(diversity_of([spec.source for spec in certified])),
                "win_rates": {},
            }
            groups = _groups(certified, settings.run.seed, plays)
            for agent, model in models.items():
                async with open_policy(str(model)) as policy:
                    played = await play_groups(groups, sandbox, policy, settings=settings.selfplay.play)
                brought[name]["win_rates"][agent] = [
                    fmean(group.returns) if group.returns else None for group in played
                ]
    return brought


def _groups(specs: Sequence[EnvironmentSpec], root: int, plays: int) -> list[GroupRequest]:
    return [
        GroupRequest(spec=spec, seeds=tuple(derive_seed(root, "pair", number, play) for play in range(plays)))
        for number, spec in enumerate(specs)
    ]


def _requests(settings: RunSettings, corpus: Corpus, count: int) -> list[DesignRequest]:
    skills = settings.designer.skills
    documents = [corpus.at(UNMET + number) for number in range(count)]
    return [
        DesignRequest(
            skill=skills[number % len(skills)],
            document=document.words(settings.designer.corpus_words),
            document_id=document.id,
            domain=document.domain,
        )
        for number, document in enumerate(documents)
    ]


async def _written(target: str, requests: Sequence[DesignRequest], settings: RunSettings) -> list[EnvironmentSpec]:
    """The environments of those requests that brought a program."""
    drawn = await drawn_designs(target, requests, settings, purpose="pair")
    return [
        EnvironmentSpec(name=f"design_{number}", source=source, skill=request.skill, domain=request.domain)
        for number, (request, source) in enumerate(zip(requests, drawn, strict=True))
        if source is not None
    ]


def _gold_steps(pool: Pool, identity: str) -> float | None:
    certificate = pool.certificate(identity)
    return fmean(certificate.gold_lengths) if certificate and certificate.gold_lengths else None


def _designer(row: Row) -> Row:
    """What an update trained of the designer."""
    train = row["train"]
    kept = ("designer", "designer_reward", "designer_weight", "surprise")
    return {"rollout": row["rollout"], **{name: train.get(name) for name in kept}}
