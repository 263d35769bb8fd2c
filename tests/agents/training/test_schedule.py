"""The learning rate by hand-computed numbers, and that engines take it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spade_agents.training.config import OptimizerConfig, RateDecay, RateSchedule, TorchEngineConfig
from spade_agents.training.schedule import learning_rate
from spade_agents.training.torch_engine import TorchEngine
from tests.agents.training.toy import toy_llama, toy_samples


def rates(decay: RateDecay, count: int, **changes) -> list[float]:
    schedule = RateSchedule(decay=decay, **changes)
    return [learning_rate(OptimizerConfig(learning_rate=1.0, schedule=schedule), update) for update in range(count)]


def test_the_rate_is_constant_by_default():
    assert [learning_rate(OptimizerConfig(learning_rate=1e-6), update) for update in (0, 399)] == [1e-6, 1e-6]


def test_the_warm_up_rises_on_a_line_and_ends_at_the_full_rate():
    assert rates(RateDecay.CONSTANT, 6, warmup=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_linear_decay_ends_at_its_final_share_and_stays_there():
    assert rates(RateDecay.LINEAR, 7, updates=4, final=0.2) == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2])


def test_a_cosine_decay_follows_half_a_cosine_after_the_warm_up():
    # After two updates of warm-up: cos 0, cos 60°, cos 90°, cos 180° of half the way, each (1 + cos) / 2.
    found = rates(RateDecay.COSINE, 9, warmup=2, updates=8)
    assert [found[at] for at in (0, 1, 2, 4, 5, 8)] == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.0])


@pytest.mark.parametrize(
    "wrong", [{"warmup": -1}, {"final": 1.5}, {"decay": RateDecay.COSINE, "warmup": 3, "updates": 3}]
)
def test_a_schedule_that_cannot_be_followed_is_refused(wrong):
    with pytest.raises(ValueError, match="want"):
        RateSchedule(**wrong)


def test_an_engine_steps_at_the_rate_of_its_update_also_after_loading(tmp_path: Path):
    schedule = RateSchedule(decay=RateDecay.LINEAR, updates=2)
    config = TorchEngineConfig(optimizer=OptimizerConfig(learning_rate=1e-2, schedule=schedule))
    engine = TorchEngine(toy_llama(), config)
    engine.update(toy_samples())
    engine.save(tmp_path)
    half = TorchEngine(toy_llama(), replace(config, optimizer=OptimizerConfig(learning_rate=5e-3)))
    half.load(tmp_path)
    engine.update(toy_samples(seed=1))
    half.update(toy_samples(seed=1))
    assert all(bool((value == half.state_dict()[name]).all()) for name, value in engine.state_dict().items())
    before = engine.state_dict()
    engine.update(toy_samples(seed=2))
    assert all(bool((value == before[name]).all()) for name, value in engine.state_dict().items())
