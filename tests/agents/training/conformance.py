"""The check every engine must pass, and the program that the launcher runs on two processes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spade_agents.errors import CheckpointError, PolicyError
from spade_agents.training.batch import deal
from spade_agents.training.config import (
    DeepSpeedEngineConfig,
    LoraConfig,
    LossConfig,
    OptimizerConfig,
    TorchEngineConfig,
)
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


def long_samples(seed: int = 0):
    """Six samples of which no two fit into one micro-batch of 20 tokens."""
    return [sample for sample in toy_samples(60, seed=seed) if len(sample.token_ids) > 12][:6]


def balanced(pieces: int) -> list[list[int]]:
    return [list(range(0, pieces, 2)), list(range(1, pieces, 2))]


def one_and_the_rest(pieces: int) -> list[list[int]]:
    return [[0], list(range(1, pieces))]


def all_and_none(pieces: int) -> list[list[int]]:
    return [list(range(pieces)), []]


DEALS = (balanced, one_and_the_rest, all_and_none)
"""Who gets what of an update's micro-batches; the last leaves one rank with nothing to train on."""
KINDS = {
    "plain": {},
    "steps": {"updates_per_rollout": 2, "epochs": 2, "loss": LossConfig(kl_coefficient=0.05)},
    "lora": {"lora": LoraConfig(rank=2), "loss": LossConfig(kl_coefficient=0.05)},
}
"""Settings under which engines are compared, by a name for the command line."""


def dealt_run(engine: TrainingEngine, deals):
    """An update under each deal, the second one with replay; how many pieces each rank had."""
    sizes, rows = [], []
    with pytest.MonkeyPatch.context() as patch:
        for number, chosen in enumerate(deals):

            def hands(costs, *, ranks, chosen=chosen):
                sizes.append([len(hand) for hand in chosen(len(costs))])
                return chosen(len(costs))

            patch.setattr("spade_agents.training.update.deal", hands)
            rows.append(engine.update(long_samples(number), replay=REPLAY if number == 1 else ()))
    return rows, sizes


def check_close(ours, theirs) -> None:
    assert ours.loss == pytest.approx(theirs.loss, abs=1e-4)
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-4)
    assert (ours.tokens, ours.replay_tokens, ours.kept) == (theirs.tokens, theirs.replay_tokens, theirs.kept)


def follow_dealt(engine) -> None:
    """A follower whose first updates are dealt out as the leader's are, the later ones as usual."""
    with pytest.MonkeyPatch.context() as patch:
        turn = iter(range(10_000))

        def hands(costs, *, ranks):
            number = next(turn) // engine.config.updates_per_rollout
            return DEALS[number](len(costs)) if number < len(DEALS) else deal(costs, ranks=ranks)

        patch.setattr("spade_agents.training.update.deal", hands)
        engine.follow()


def config_of(stage: int, kind: str, **changes) -> DeepSpeedEngineConfig:
    """Settings of a stage; at stage 3 even small weights are split."""
    zero = {"stage3_param_persistence_threshold": 0} if stage == 3 else {}
    return DeepSpeedEngineConfig(
        zero_stage=stage, optimizer=CONFIG.optimizer, token_budget=20, zero=zero, **(KINDS[kind] | changes)
    )


def main(stage: int, kind: str, folder: Path) -> None:
    from spade_agents.training.deepspeed_engine import DeepSpeedEngine

    config = config_of(stage, kind)
    engine = DeepSpeedEngine(toy_llama(), config)
    if engine.rank > 0:
        follow_dealt(engine)
        engine.close()
        return
    single = TorchEngine(toy_llama(), replace(CONFIG, token_budget=20, **KINDS[kind]))
    rows, sizes = dealt_run(engine, DEALS)
    expected, _ = dealt_run(single, [lambda pieces: [list(range(pieces))]] * len(DEALS))
    for ours, theirs in zip(rows, expected, strict=True):
        check_close(ours, theirs)
    weights = single.state_dict()
    for name, value in engine.state_dict().items():
        torch.testing.assert_close(value, weights[name], atol=1e-4, rtol=0)
    scored = zip(engine.logprobs(long_samples(9)), single.logprobs(long_samples(9)), strict=True)
    assert all(ours == pytest.approx(theirs, abs=1e-3) for ours, theirs in scored)
    engine.save(folder / "saved")
    engine.export(folder / "model")
    first = engine.update(long_samples(7))
    after = engine.state_dict()
    engine.load(folder / "saved")
    second = engine.update(long_samples(7))
    report = {
        "ranks": engine.ranks,
        "pieces": sizes,
        "resumed": replace(first, seconds=0.0) == replace(second, seconds=0.0)
        and all(bool((value == after[name]).all()) for name, value in engine.state_dict().items()),
    }
    with pytest.raises(CheckpointError, match="does not load"):
        next((folder / "saved" / "zero").glob("*model_states.pt")).write_bytes(b"broken")
        engine.load(folder / "saved")
    with pytest.raises(PolicyError, match="not finite"):
        engine.update([replace(sample, advantage=float("nan")) for sample in toy_samples(2)])
    (folder / "report.json").write_text(json.dumps(report))
    engine.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
