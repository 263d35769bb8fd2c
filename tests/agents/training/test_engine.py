"""Opening engines, and what importing the trainer costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from spade_agents.training import DeepSpeedEngineConfig, EngineConfig, Normalisation, TorchEngineConfig, open_engine


def test_importing_settings_rewards_and_statistics_loads_no_torch():
    code = (
        "import sys, spade_agents.training, spade_agents.rewards, spade_agents.statistics; "
        "print(sorted({'torch', 'transformers', 'deepspeed', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_type_chooses_the_engine(toy_folder):
    engine = open_engine(TorchEngineConfig(), Path(toy_folder))
    assert type(engine).__name__ == "TorchEngine"
    assert (engine.step, engine.rank) == (0, 0)
    assert type(open_engine(DeepSpeedEngineConfig(), Path(toy_folder))).__name__ == "DeepSpeedEngine"


def test_settings_compose_by_their_type():
    adapter = TypeAdapter(EngineConfig)
    chosen = adapter.validate_python({"type": "deepspeed", "zero_stage": 1, "loss": {"normalisation": "token_mean"}})
    assert isinstance(chosen, DeepSpeedEngineConfig)
    assert (chosen.zero_stage, chosen.loss.normalisation) == (1, Normalisation.TOKEN_MEAN)


def test_the_defaults_are_the_papers_constants():
    optimizer, loss = TorchEngineConfig().optimizer, TorchEngineConfig().loss
    assert (optimizer.learning_rate, optimizer.beta1, optimizer.beta2) == (1e-6, 0.9, 0.98)
    assert (optimizer.weight_decay, optimizer.gradient_clip) == (0.1, 1.0)
    assert (loss.clip_low, loss.clip_high, loss.importance_cap, loss.kl_coefficient) == (0.2, 0.28, 2.0, 0.0)
    assert TorchEngineConfig().updates_per_rollout == 1


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="found epochs = 0; wanted at least 1"):
        TorchEngineConfig(epochs=0)
    with pytest.raises(ValueError, match="found zero_stage = 4"):
        DeepSpeedEngineConfig(zero_stage=4)
