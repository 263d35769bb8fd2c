"""A whole run over a vLLM server's API in memory: every update's weights reach what samples, or the run ends."""

from __future__ import annotations

import json
import shutil

import pytest

import spade_agents
from spade_agents.errors import ConfigurationError, InfrastructureError
from spade_agents.policy.vllm import VllmSettings
from spade_agents.selfplay.design_settings import PoolDesignSettings
from spade_agents.selfplay.pool_designer import design_pool
from spade_agents.settings import load_settings
from tests.agents.policy.vllm.standin import StandIn, serving
from tests.agents.policy.vllm.worker import MemoryWorker, tiny
from tests.agents.selfplay.test_resume import back_to
from tests.agents.tiny import tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("served") / "model"
    tiny().save_pretrained(made)
    tokenizer().inner.save(str(made / "tokenizer.json"))
    (made / "spade.json").write_text(json.dumps({"template_family": "hermes", "style": "compact"}))
    return made


def train(folder, out, standin: StandIn, *more: str):
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
            *more,
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


def asked(standin: StandIn) -> list[dict]:
    """What was asked of a server, but for its own probes: prompts, seeds and lengths."""
    return [body for body in standin.bodies if body["sampling_params"]["max_tokens"] == 6]


def by_seed(bodies: list[dict]) -> list[dict]:
    """Requests of one rollout are under way together and arrive in any order."""
    return sorted(bodies, key=lambda body: body["sampling_params"]["seed"])


def test_a_separate_server_samples_the_next_rollout_during_the_update_and_a_resumed_run_asks_it_the_same(
    tmp_path, folder
):
    ahead = ("selfplay.asynchronous=true", "run.rollouts=3", "run.keep_checkpoints=9")
    with serving(StandIn(context=4096)) as standin:
        whole = train(folder, tmp_path / "run", standin, *ahead)
        before = asked(standin)
        assert [row["train"]["behind"] for row in whole.rows if row["kind"] == "rollout"] == [None] * 3
        shutil.copytree(tmp_path / "run", tmp_path / "resumed")
        back_to(tmp_path / "resumed", 1)
        standin.bodies.clear()
        resumed = spade_agents.resume(tmp_path / "resumed")
    assert resumed.finished
    again = asked(standin)
    # Rollout 1 lay in the checkpoint; that of rollout 2 is asked for again.
    assert len(again) == 4
    assert by_seed(again) == by_seed(before[-4:])


def test_a_pool_is_designed_by_a_model_that_a_server_runs(tmp_path, folder):
    overrides = ["slots=2", "call.attempts=2", "call.sampling.max_tokens=6", "corpus='none'", "skills='tools'"]
    with serving(StandIn(context=4096)) as standin:
        told = [f"model='{folder}'", "backend=vllm", f"vllm.url='{standin.url}#spade'", *overrides]
        settings = load_settings(PoolDesignSettings, None, told)
        result = design_pool(settings, tmp_path / "pool")
    assert (result.spent.completions, sum(result.undone.values())) == (4, 0)
    assert len([body for body in standin.bodies if body["sampling_params"]["max_tokens"] == 6]) == 4
    elsewhere = settings.model_copy(update={"vllm": VllmSettings(url="http://127.0.0.1:1#spade", threads=1)})
    with pytest.raises(InfrastructureError):  # another place is no other design, but there must be a server
        design_pool(elsewhere, tmp_path / "pool")
    with pytest.raises(ConfigurationError, match="backend was 'vllm' and is 'auto'"):
        design_pool(settings.model_copy(update={"backend": "auto"}), tmp_path / "pool")
