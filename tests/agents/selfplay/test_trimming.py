"""Batches are trimmed at random: no place in them is safer than another, and the choice is the run's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from spade_agents.selfplay.update_phase import trimmed
from spade_agents.trajectory import Role, TrainingSample
from tests.agents.selfplay.scripted import run, settings


def sample(number: int, advantage: float = 1.0) -> TrainingSample:
    role = Role.AGENT if number < 8 else Role.DESIGNER
    return TrainingSample(
        token_ids=(number, 1), mask=(False, True), logprobs=(0.0, -1.0), advantage=advantage, role=role, group="g"
    )


BATCH = tuple(sample(number) for number in range(10))


def test_a_batch_that_fits_is_left_as_it_is():
    assert trimmed(BATCH, 0, seed=1) == trimmed(BATCH, 10, seed=1) == BATCH


def test_what_is_kept_keeps_its_order_and_one_seed_makes_one_choice():
    chosen = trimmed(BATCH, 4, seed=1)
    assert len(chosen) == 4
    assert [s.token_ids[0] for s in chosen] == sorted(s.token_ids[0] for s in chosen)
    assert trimmed(BATCH, 4, seed=1) == chosen
    assert len({trimmed(BATCH, 4, seed=seed) for seed in range(20)}) > 10


def test_every_place_is_dropped_as_often_as_any_other():
    # 2,000 draws of 4 of 10: each place is kept 800 times but for chance (standard deviation 22).
    kept = Counter(s.token_ids[0] for seed in range(2000) for s in trimmed(BATCH, 4, seed=seed))
    assert all(abs(kept[number] - 800) < 5 * 22 for number in range(10))


def test_samples_that_carry_no_gradient_are_neither_dropped_nor_counted():
    batch = (*BATCH[:3], *(replace(s, advantage=0.0) for s in BATCH[3:]))
    assert trimmed(batch, 3, seed=0) == batch
    assert len(trimmed(batch, 1, seed=0)) == 8


async def test_a_run_trains_on_no_more_samples_than_it_may_and_says_how_many_it_left_out(tmp_path):
    chosen = settings("training.batch_samples=2", "run.rollouts=3", "selfplay.plays=4")
    resources, _ = await run(tmp_path / "run", chosen)
    carrying = [sum(s.advantage != 0.0 for s in batch) for batch, _ in resources.engine.batches]
    rows = [row["train"] for row in resources.directory.metrics.rows()]
    assert max(carrying) == 2
    assert [row["trimmed"] for row in rows] == [
        row["agent"] + row["designer"] - len(batch)
        for row, (batch, _) in zip(rows, resources.engine.batches, strict=True)
    ]
    assert sum(row["trimmed"] for row in rows) > 0
