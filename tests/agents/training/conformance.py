"""The check every engine must pass, and the program that the launcher runs on two processes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spade_agents.errors import CheckpointError, PolicyError
from spade_agents.training.batch import kept_samples, micro_batches
from spade_agents.training.config import DeepSpeedEngineConfig, OptimizerConfig, TorchEngineConfig
from spade_agents.training.engine import TrainingEngine
from spade_agents.training.samples import SupervisedSample
from spade_agents.training.torch_engine import TorchEngine
from tests.agents.training.toy import toy_llama, toy_samples

CONFIG = TorchEngineConfig(optimizer=OptimizerConfig(learning_rate=1e-2), token_budget=40)
REPLAY = (SupervisedSample(token_ids=(1, 2, 3, 4), mask=(False, False, True, True)),)


def run(engine: TrainingEngine):
    """Three updates on changing samples, one of them with replay."""
    return [engine.update(toy_samples(6, seed=seed), replay=REPLAY if seed == 1 else ()) for seed in range(3)]


def reference_run(**changes):
    engine = TorchEngine(toy_llama(), replace(CONFIG, **changes))
    return run(engine), engine.state_dict()


def check_conformance(engine: TrainingEngine, reference) -> None:
    expected, weights = reference
    for ours, theirs in zip(run(engine), expected, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)
        assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-5)
        assert ours.ratio_mean == pytest.approx(theirs.ratio_mean, abs=1e-5)
        assert ours.effective_sample_size == pytest.approx(theirs.effective_sample_size, abs=1e-5)
        assert (ours.tokens, ours.replay_tokens, ours.kept) == (theirs.tokens, theirs.replay_tokens, theirs.kept)
    for name, value in engine.state_dict().items():
        torch.testing.assert_close(value, weights[name], atol=1e-5, rtol=0)


def main(stage: int, folder: Path) -> None:
    from spade_agents.training.deepspeed_engine import DeepSpeedEngine

    config = DeepSpeedEngineConfig(zero_stage=stage, optimizer=CONFIG.optimizer, token_budget=CONFIG.token_budget)
    engine = DeepSpeedEngine(toy_llama(), config)
    if engine.rank > 0:
        engine.follow()
        engine.close()
        return
    check_conformance(engine, reference_run())
    engine.save(folder / "saved")
    first = engine.update(toy_samples(6, seed=7))
    engine.load(folder / "saved")
    second = engine.update(toy_samples(6, seed=7))
    batches = micro_batches(
        kept_samples(toy_samples(6)), token_budget=config.token_budget, normalisation=config.loss.normalisation
    )
    with pytest.raises(CheckpointError, match="does not load"):
        (folder / "saved" / "zero" / "mp_rank_00_model_states.pt").write_bytes(b"broken")
        engine.load(folder / "saved")
    with pytest.raises(PolicyError, match="not finite"):
        engine.update([replace(sample, advantage=float("nan")) for sample in toy_samples(2)])
    report = {
        "ranks": engine.ranks,
        "micro_batches": [len(batches[rank::2]) for rank in range(2)],
        "resumed": replace(first, seconds=0.0) == replace(second, seconds=0.0),
    }
    (folder / "report.json").write_text(json.dumps(report))
    engine.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
