"""Faults of a weight sync over a server's API, one by one: each is refused and named; a true sync is not."""

from __future__ import annotations

import pytest
import torch

from spade_agents.errors import InfrastructureError
from spade_agents.policy.arrival import check_arrival, check_canary
from spade_agents.policy.vllm import VllmSettings
from spade_agents.policy.vllm.policy import VllmPolicy
from tests.agents.policy.vllm.standin import StandIn, serving
from tests.agents.policy.vllm.worker import KEY, QUERY, MemoryWorker, tiny, weights

CANARY = tuple(range(20, 60))


def trainer(state) -> list[float]:
    model = tiny()
    model.load_state_dict(state)
    with torch.inference_mode():
        logprobs = model(torch.tensor([CANARY])).logits[0, :-1].log_softmax(-1)
    return logprobs.gather(1, torch.tensor(CANARY[1:])[:, None])[:, 0].tolist()


async def synced(folder, standin: StandIn, state, *, prove=("sums", "canary"), tolerance: float = 0.02) -> float:
    """The trainer's side of a sync: send, compare every tensor, then the canary."""
    async with VllmPolicy.open(folder, VllmSettings(url=f"{standin.url}#spade")) as policy:
        policy.load_weights(state, version=3)
        if "sums" in prove:
            check_arrival(state, 3, policy.arrival())
        return check_canary(trainer(state), policy.score(CANARY), tolerance=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
async def test_weights_that_arrived_are_not_refused(folder, dtype, tolerance):
    with serving(StandIn(MemoryWorker(dtype))) as standin:
        for seed in (1, 2):
            assert await synced(folder, standin, weights(seed), tolerance=tolerance) < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("dropped", rf"{QUERY} holds other numbers"),
        ("stale", r"model\.embed_tokens\.weight holds other numbers"),
        ("swapped", rf"{QUERY} holds the numbers of {KEY}"),
        ("stale packed head", r"lm_head\.weight holds other numbers"),
        ("nothing", "version 0; version 3 was sent"),
    ],
)
async def test_each_fault_of_a_worker_is_refused_and_named(folder, fault, told, dtype):
    with serving(StandIn(MemoryWorker(dtype, fault))) as standin, pytest.raises(InfrastructureError, match=told):
        await synced(folder, standin, weights(seed=1), tolerance=0.2)


async def test_the_canary_alone_also_finds_a_stale_packed_head(folder):
    told = r"packed lm_head\.weight"
    with serving(StandIn(MemoryWorker(fault="stale packed head"))) as standin:
        canary_only = synced(folder, standin, weights(seed=1), prove=["canary"])
        with pytest.raises(InfrastructureError, match=told):
            await canary_only


async def test_reloading_the_same_weights_hides_a_stale_head_so_others_are_needed(folder):
    with serving(StandIn(MemoryWorker(fault="stale packed head"))) as standin:
        assert await synced(folder, standin, weights(seed=0)) < 0.02


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tensor: tensor[:0], rf"{QUERY} has size zero"),
        (lambda tensor: tensor[:-1], rf"the tensor {QUERY}: \(31, 32\) does not fit"),
    ],
)
async def test_a_tensor_of_another_size_is_refused_before_it_is_loaded(folder, standin, change, told):
    state = weights(seed=1)
    state[QUERY] = change(state[QUERY])
    with pytest.raises(InfrastructureError, match=told):
        await synced(folder, standin, state)


@pytest.mark.parametrize(("way", "told"), [("sticky", "1 cached prefixes"), ("stuck", "kept its prefix cache")])
async def test_a_prefix_cache_that_was_not_reset_is_refused(folder, standin, way, told):
    setattr(standin, way, True)
    with pytest.raises(InfrastructureError, match=told):
        await synced(folder, standin, weights(seed=1))


async def test_a_model_split_over_workers_cannot_be_proven(folder, standin):
    standin.worker.parallel_config.tensor_parallel_size = 2
    with pytest.raises(InfrastructureError, match="split over 2 workers"):
        await synced(folder, standin, weights(seed=1))


async def test_nothing_is_left_where_weights_are_handed_over(folder, standin, tmp_path):
    async with VllmPolicy.open(folder, VllmSettings(url=f"{standin.url}#spade", exchange=str(tmp_path))) as policy:
        policy.load_weights(weights(seed=1), version=1)
    assert not list(tmp_path.iterdir())
