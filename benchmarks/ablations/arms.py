"""The arms as settings over one configuration, and the keys by which work that is done is known again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spade_agents.policy import model_folder
from spade_agents.selfplay import RunSettings
from spade_agents.settings import load_settings, to_toml

__all__ = ["ARMS", "FIXED", "FULL", "POOL", "QUICK", "Arm", "Size", "job_key", "start_sum"]

FORMAT = 1
"""Part of every key: raised where the code changes so that earlier runs cannot stand beside new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One arm: what it changes of the common configuration, and how a table names the change."""

    told: str
    overrides: tuple[str, ...] = ()


_FIXED_POOL = "selfplay.hint_plays=0"
ONE_DOCUMENT = Path(__file__).with_name("one_document.jsonl")
# Nano was warmed up on prompts that all hold a document: asked without one, it writes a document and no program. One
# and the same document in every prompt takes the corpus' breadth away and leaves a prompt of the form that nano knows.
_NO_CORPUS = f"designer.corpus={ONE_DOCUMENT}"
ARMS: Mapping[str, Arm] = {
    "SPADE": Arm(told="the whole method"),
    "fixed pool": Arm(
        told="48 environments of the start weights, drawn evenly",
        overrides=("selfplay.pool.type=static", _FIXED_POOL),
    ),
    "frontier pool": Arm(
        told="the same 48, those of middling win rate first",
        overrides=("selfplay.pool.type=frontier", _FIXED_POOL),
    ),
    "frozen designer": Arm(told="the start weights design to the end", overrides=("designer.policy.type=frozen",)),
    "no corpus": Arm(told="one and the same document in every prompt", overrides=(_NO_CORPUS,)),
    "no memory": Arm(told="no earlier environment in the prompt", overrides=("designer.memory.enabled=false",)),
    "neither": Arm(
        told="one document, no earlier environment",
        overrides=(_NO_CORPUS, "designer.memory.enabled=false"),
    ),
    "regret_only": Arm(told="the reward is regret alone", overrides=("reward.type=regret_only",)),
    "anchor_only": Arm(told="the reward is the win-rate band alone", overrides=("reward.type=anchor_only",)),
    "learning_potential": Arm(
        told="the reward is the distance from the skill's average", overrides=("reward.type=learning_potential",)
    ),
}
FIXED = ("fixed pool", "frontier pool")
"""Arms that draw from the pool of their seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large every run is: overrides of all runs and of the pool's, and what is measured of each.

    Attributes:
        runs: overrides of every arm.
        pool: overrides of the run whose environments become the fixed pool of a seed, after `runs`.
        held_out: plays of the known families at the end.
        designs: asked of each designer in the paired part.
        plays: of each of these designs by each agent.
    """

    runs: tuple[str, ...]
    pool: tuple[str, ...]
    held_out: int
    designs: int
    plays: int


# The shipped configuration gives the designer three updates on a dozen samples, and four of its six skills one slot a
# set, where an environment is compared with nothing but rejected attempts: no reward could tell itself from another
# there. Twelve slots every other rollout are two a skill and six updates; a weight of 4 gives these few samples about
# the agent's share of the gradient.
_COMMON = (
    "run.keep_checkpoints=1",
    "selfplay.period=2",
    "training.role_weight.value=4.0",
    "evaluation.evaluator=none",
)
# A pool is a short run of the designer as it is at the start, of which nothing but the environments is used.
_POOL = (
    "designer.policy.type=frozen",
    "designer.memory.enabled=false",
    "reward.type=anchor_only",
    "selfplay.period=1",
    "selfplay.plays=2",
    "selfplay.hint_plays=0",
    "run.rollouts=4",
)
FULL = Size(
    runs=(*_COMMON, "run.rollouts=12", "run.checkpoint_every=4", "selfplay.environments=12", "selfplay.plays=8"),
    pool=_POOL,
    held_out=400,
    designs=64,
    plays=8,
)
QUICK = Size(
    runs=(
        *_COMMON,
        "run.rollouts=4",
        "run.checkpoint_every=4",
        "selfplay.environments=6",
        "selfplay.plays=6",
        "selfplay.hint_plays=6",
    ),
    pool=(*_POOL, "run.rollouts=2"),
    held_out=60,
    designs=12,
    plays=4,
)
POOL = "pool"
"""The name of a seed's fixed pool among the arms' runs."""


def start_sum(target: str) -> str:
    """sha256 over the files of the start checkpoint's folder: other weights are another experiment."""
    digest = hashlib.sha256()
    for file in sorted(path for path in model_folder(target).iterdir() if path.is_file()):
        digest.update(f"{file.name} {file_sum(file)}\n".encode())
    return digest.hexdigest()


def file_sum(path: Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def job_key(config: Path, overrides: Sequence[str], start: str, *more: object) -> str:
    """Twelve hex digits of everything that decides a job's result: resolved settings, start weights, and `more`.

    Defaults are part of the resolved settings, so that a default that changes is another key. The name of a run and
    where it lies decide nothing and must not be among the overrides.
    """
    named = [text.replace(str(ONE_DOCUMENT), file_sum(ONE_DOCUMENT)) for text in overrides]
    settings = load_settings(RunSettings, config, named)
    facts = "\n".join([to_toml(settings), start, str(FORMAT), *map(str, more)])
    return hashlib.sha256(facts.encode()).hexdigest()[:12]
