"""A real vLLM server on SmolLM2: rollouts, log-probabilities beside the torch policy, and every fault of a weight sync.

Run by `make test-vllm`. One server for all of it, since starting one takes longer than most checks.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from statistics import fmean

import pytest
import pytest_asyncio
import torch

from spade_agents.errors import CheckpointError, InfrastructureError
from spade_agents.policy import Sampling, model_folder
from spade_agents.policy.arrival import check_arrival, check_canary
from spade_agents.policy.llama import read_state
from spade_agents.policy.torch_policy import TorchPolicy
from spade_agents.policy.vllm import VllmSettings
from spade_agents.policy.vllm.policy import VllmPolicy
from spade_agents.rollout import PlaySettings
from spade_agents.rollout.groups import GroupRequest, play_groups
from spade_agents.trajectory import Outcome
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox
from tests.agents.policy.vllm.worker import KEY, QUERY
from tests.vllm.install import PYTHON

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENVIRONMENTS = ("bell_towers", "die_walk", "ticket_desk")
SAMPLING = Sampling(max_tokens=24)
SCORED = 700
"""Tokens of a play that are scored, from its start: enough, and seconds instead of minutes."""
MOST = 0.1
"""Mean difference of log-probabilities that bf16 explains."""
MARGIN = 0.02
"""By which it may be larger after a sync than at a fresh server."""


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return model_folder("smollm2")
    except CheckpointError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def state(folder):
    return read_state(folder)


@pytest.fixture(scope="module")
def torch_policy(folder):
    policy = TorchPolicy.from_folder(folder)
    yield policy
    policy.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(folder):
    here = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])))
        settings = VllmSettings(
            python=str(PYTHON),
            eager=True,
            threads=int(os.environ.get("OMP_NUM_THREADS", "1")),
            context_length=4096,
            concurrency=32,
            arguments=("--worker-extension-cls", "faulty_worker.FaultyWorker"),
        )
        async with VllmPolicy.open(folder, settings) as policy:
            yield policy


def changed(state, seed: int):
    """Other weights than these: each matrix has some noise of its own size added."""
    source = torch.Generator().manual_seed(seed)
    return {
        name: tensor + 0.02 * tensor.float().std() * torch.randn(tensor.shape, generator=source)
        for name, tensor in ((name, tensor.float()) for name, tensor in state.items())
    }


async def played(policy, plays: int = 1):
    requests = [GroupRequest(spec=find(name), seeds=tuple(range(plays))) for name in ENVIRONMENTS]
    async with open_sandbox() as sandbox:
        return await play_groups(requests, sandbox, policy, settings=PlaySettings(sampling=SAMPLING, seconds=300))


def differences(torch_policy, groups) -> list[float]:
    """Of each sampled token's log-probability, server and torch policy."""
    found: list[float] = []
    for play in (play for group in groups for play in group.trajectories):
        sample = play.training_sample(advantage=1.0, group="g")
        scores = [0.0, *torch_policy.score(sample.token_ids[:SCORED])]
        found += [
            abs(ours - theirs) for ours, theirs, mask in zip(scores, sample.logprobs, sample.mask, strict=False) if mask
        ]
    return found


async def inject(policy, fault: str) -> None:
    policy.control._workers("spade_inject", fault=fault)


async def test_a_sync_to_changed_weights_is_as_near_to_the_torch_policy_as_a_fresh_server(served, torch_policy, state):
    fresh_groups = await played(served)
    for group in fresh_groups:
        assert all(play.outcome in (Outcome.SCORED, Outcome.AGENT_ERROR) for play in group.trajectories), [
            play.fault for play in group.trajectories
        ]
        assert all(turn.completion.weight_version == 0 for play in group.trajectories for turn in play.turns)
    fresh = differences(torch_policy, fresh_groups)
    new = changed(state, seed=1)
    served.load_weights(new, version=1)
    check_arrival(new | {"lm_head.weight": new["model.embed_tokens.weight"]}, 1, served.arrival())
    torch_policy.load_weights(new, 1)
    groups = await played(served)
    assert all(turn.completion.weight_version == 1 for g in groups for play in g.trajectories for turn in play.turns)
    synced = differences(torch_policy, groups)
    print(f"\nfresh: {fmean(fresh):.4f} over {len(fresh)} tokens; synced: {fmean(synced):.4f} over {len(synced)}")
    assert fmean(fresh) <= MOST
    assert fmean(synced) <= min(MOST, fmean(fresh) + MARGIN)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("dropped", rf"{QUERY} holds other numbers"),
        ("stale", r"model\.embed_tokens\.weight holds other numbers"),
        ("swapped", rf"{QUERY} holds the numbers of {KEY}"),
        ("stale packed head", r"lm_head\.weight holds other numbers"),
        ("nothing", r"version \d+; version 27 was sent"),
    ],
)
async def test_each_fault_of_a_worker_is_refused_and_named(served, state, fault, told):
    version = 20 + len(fault)
    new = changed(state, seed=version)
    await inject(served, fault)
    served.load_weights(new, version)
    await inject(served, "")
    with pytest.raises(InfrastructureError, match=told) as found:
        check_arrival(new | {"lm_head.weight": new["model.embed_tokens.weight"]}, version, served.arrival())
    print(f"\n{fault}: {found.value}")


async def test_the_canary_alone_also_finds_a_stale_packed_head_and_mending_mends_it(served, torch_policy, state):
    canary = list(range(1000, 1128))
    new = changed(state, seed=30)
    torch_policy.load_weights(new, 2)
    await inject(served, "stale packed head")
    served.load_weights(new, version=10)
    await inject(served, "")
    with pytest.raises(InfrastructureError, match=r"packed lm_head\.weight") as found:
        check_canary(torch_policy.score(canary), served.score(canary), tolerance=0.1)
    served.load_weights(new, version=11)
    mended = check_canary(torch_policy.score(canary), served.score(canary), tolerance=0.1)
    print(f"\nunmended: {found.value}; mended: {mended:.4f}")


async def test_a_tensor_of_size_zero_is_refused_and_named(served, state):
    with pytest.raises(InfrastructureError, match=rf"{QUERY} has size zero"):
        served.load_weights(state | {QUERY: state[QUERY][:0]}, version=12)


async def test_a_prefix_cache_that_was_not_reset_is_refused(served, state, monkeypatch):
    monkeypatch.setattr(served.control, "reset_prefix_cache", lambda: True)
    served.load_weights(state, version=13)
    with pytest.raises(InfrastructureError, match="cached prefixes"):
        check_arrival(state, 13, served.arrival())
    monkeypatch.undo()
    served.load_weights(state, version=14)
    check_arrival(state, 14, served.arrival())


async def test_temperature_zero_top_p_and_top_k_are_sampled_and_told_as_processed(served, state, torch_policy):
    served.load_weights(state, version=15)
    torch_policy.load_weights(state, 15)
    prompt = tuple(torch_policy.renderer.tokenizer.encode("The capital of France is"))
    sampled = [Sampling(max_tokens=8, temperature=0.0), Sampling(max_tokens=8, top_k=1)]
    greedy, one = [await served.engine.generate(prompt, how, stop=frozenset(), seed=1) for how in sampled]
    assert greedy.token_ids == one.token_ids and set(one.logprobs) == {0.0}
    scores = torch_policy.score(prompt + greedy.token_ids)[len(prompt) - 1 :]
    assert fmean(abs(a - b) for a, b in zip(scores, greedy.logprobs, strict=True)) <= MOST
    cool = Sampling(max_tokens=16, temperature=0.6)
    told = await served.engine.generate(prompt, cool, stop=frozenset(), seed=2)
    scores = torch_policy.score(prompt + told.token_ids, temperature=0.6)[len(prompt) - 1 :]
    assert fmean(abs(a - b) for a, b in zip(scores, told.logprobs, strict=True)) <= 2 * MOST
    nucleus = Sampling(max_tokens=16, top_p=0.5)
    kept = await served.engine.generate(prompt, nucleus, stop=frozenset(), seed=3)
    plain = torch_policy.score(prompt + kept.token_ids)[len(prompt) - 1 :]
    assert fmean(kept.logprobs) > fmean(plain) + 0.1


async def test_many_requests_fly_at_once_and_end_at_their_deadline(served):
    import time

    prompt = tuple(range(100, 160))
    flying = [served.engine.generate(prompt, Sampling(max_tokens=8), stop=frozenset(), seed=seed) for seed in range(32)]
    assert len({found.token_ids for found in await asyncio.gather(*flying)}) > 16
    with pytest.raises(InfrastructureError, match="deadline"):
        await served.engine.generate(
            prompt, Sampling(max_tokens=3000), stop=frozenset(), seed=0, deadline=time.monotonic() + 0.5
        )
    assert served.engine.in_flight == 0
