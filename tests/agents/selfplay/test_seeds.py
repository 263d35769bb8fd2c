"""All of a run's randomness comes from one root, by streams that never meet."""

from __future__ import annotations

import sys

import spade_agents.seeds
from tests.agents.selfplay.scripted import run, settings


def watched(monkeypatch) -> dict[tuple, int]:
    """Every seed that is derived from now on, by its path, whichever module asks for it."""
    found: dict[tuple, int] = {}
    derive = spade_agents.seeds.derive_seed

    def derive_seed(*path):
        found[path] = derive(*path)
        return found[path]

    for name, module in list(sys.modules.items()):
        if name.startswith("spade_agents.") and getattr(module, "derive_seed", None) is derive:
            monkeypatch.setattr(module, "derive_seed", derive_seed)
    return found


async def test_every_seed_of_a_run_descends_from_its_root_and_no_two_streams_meet(tmp_path, monkeypatch):
    found = watched(monkeypatch)
    root = 987_654_321
    chosen = settings(
        f"run.seed={root}", "run.rollouts=3", "training.batch_samples=3", "training.replay.type=supervised",
        "training.replay.source=tests.agents.selfplay.scripted:open_replay",
    )  # fmt: skip
    await run(tmp_path / "run", chosen)
    known = {root}
    for path, seed in found.items():
        assert known.intersection(path), f"{path} comes from no seed of the run"
        known.add(seed)
    assert len(set(found.values())) == len(found)
    streams = {path[1] for path in found if path[0] == root}
    assert streams >= {"play", "design", "memory", "replay", "trim"}


async def test_runs_of_different_roots_share_no_seed(tmp_path, monkeypatch):
    found = watched(monkeypatch)
    await run(tmp_path / "one", settings("run.seed=1", "run.rollouts=1"))
    first = set(found.values())
    found.clear()
    await run(tmp_path / "two", settings("run.seed=2", "run.rollouts=1"))
    assert first
    assert not first & set(found.values())
