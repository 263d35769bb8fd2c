"""A whole run over a vLLM server's API in memory: every update's weights reach what samples, or the run ends."""

from __future__ import annotations

import json

import pytest

import spade_agents
from spade_agents.errors import InfrastructureError
from tests.agents.policy.vllm.standin import StandIn, serving
from tests.agents.policy.vllm.worker import MemoryWorker, tiny
from tests.agents.tiny import tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("served") / "model"
    tiny().save_pretrained(made)
    tokenizer().inner.save(str(made / "tokenizer.json"))
    (made / "spade.json").write_text(json.dumps({"template_family": "hermes", "style": "compact"}))
    return made


def train(folder, out, standin: StandIn):
    return spade_agents.train(
        out=out,
        overrides=[
            f"model.start={folder}",
            "run.rollouts=1",
            "designer.corpus=none",
            "designer.call.attempts=2",
            "designer.call.sampling.max_tokens=6",
            "selfplay.environments=2",
            "selfplay.plays=2",
            "selfplay.hint_plays=2",
            "selfplay.period=1",
            "training.engine.optimizer.learning_rate=0.01",
            "reward.rejected=-0.2",
            "training.replay.type=supervised",
            "training.replay.source=tests.agents.selfplay.scripted:open_replay",
            "sampler.type=vllm",
            f"sampler.url={standin.url}#spade",
            "sampler.tolerance=0.01",
        ],
    )


def test_a_run_samples_at_a_server_and_sends_it_every_updates_weights(tmp_path, folder):
    with serving(StandIn(context=4096)) as standin:
        result = train(folder, tmp_path / "run", standin)
    assert result.finished
    updates = sum("train" in row for row in result.rows)
    assert updates and standin.label == str(standin.worker.spade_version) == str(updates)
    assert len([body for body in standin.bodies if body["sampling_params"]["max_tokens"] == 6]) == 4


def test_a_run_ends_where_a_server_keeps_a_stale_head(tmp_path, folder):
    told = r"lm_head\.weight holds other numbers"
    stale = StandIn(MemoryWorker(fault="stale packed head"), context=4096)
    with serving(stale) as standin, pytest.raises(InfrastructureError, match=told):
        train(folder, tmp_path / "run", standin)
