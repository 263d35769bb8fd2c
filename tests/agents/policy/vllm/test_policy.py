"""VllmPolicy over a server's API in memory: exact tokens, biased sampling, versions, and a server that fails."""

from __future__ import annotations

import asyncio
import time

import pytest
import torch

from spade_agents.errors import ContextExhaustedError, InfrastructureError, PolicyError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.arrival import ArrivalError, ProvingPolicy
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.torch_policy import TorchPolicy
from spade_agents.policy.vllm import VllmSettings
from spade_agents.policy.vllm.policy import VllmPolicy
from spade_agents.trajectory import Role, sample_from
from spade_environments import ToolSpec
from tests.agents.policy.vllm.standin import StandIn, serving
from tests.agents.policy.vllm.worker import tiny, weights
from tests.agents.tiny import tokenizer

TOOL = ToolSpec(name="act", description="Act.", parameters={"type": "object", "properties": {}})
OPENING = Conversation(messages=(Message(role="user", content="go"),), tools=(TOOL,))
SAMPLING = Sampling(max_tokens=8)


def opened(folder, standin, **changes):
    return VllmPolicy.open(folder, VllmSettings(url=f"{standin.url}/v1#spade", **changes), style="compact")


async def test_tokens_and_log_probabilities_come_as_sampled(folder, standin):
    torch_policy = TorchPolicy.from_folder(folder, style="compact")
    async with opened(folder, standin) as policy:
        ours = await policy.complete(OPENING, Sampling(max_tokens=8, temperature=0.0), seed=0)
        theirs = await torch_policy.complete(OPENING, Sampling(max_tokens=8, temperature=0.0), seed=0)
        assert (ours.prompt_ids, ours.token_ids) == (theirs.prompt_ids, theirs.token_ids)
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
        assert policy.info.has_tokens and policy.info.context_length == 512
    torch_policy.close()


async def test_every_sampling_parameter_is_the_requests_own(folder, standin):
    async with opened(folder, standin) as policy:
        await policy.complete(OPENING, Sampling(max_tokens=4, temperature=0.6, top_p=0.9, top_k=5), seed=2**70)
    sent = standin.bodies[-1]["sampling_params"]
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["max_tokens"]) == (0.6, 0.9, 5, 4)
    assert (sent["min_p"], sent["repetition_penalty"], sent["ignore_eos"]) == (0.0, 1.0, True)
    assert sent["seed"] < 2**63 and sent["stop_token_ids"] == [tokenizer().inner.token_to_id("<|im_end|>")]


async def test_turns_are_appended_and_train_as_one_sample(folder, standin):
    conversation, completions = OPENING, []
    async with opened(folder, standin) as policy:
        for turn in range(3):
            completion = await policy.complete(conversation, SAMPLING, seed=turn)
            completions.append(completion)
            said = Message(role="assistant", content=completion.text, calls=completion.calls)
            conversation = conversation.then(said, tokens=completion.prompt_ids + completion.token_ids)
            conversation = conversation.then(Message(role="tool", content=f"result {turn}"))
        sample = sample_from(completions, advantage=1.0, group="g", role=Role.AGENT)
        scores = [0.0, *policy.score(sample.token_ids)]
    trained = [place for place, mask in enumerate(sample.mask) if mask]
    assert len(trained) == sum(len(c.token_ids) for c in completions)
    assert [scores[n] for n in trained] == pytest.approx([sample.logprobs[n] for n in trained], abs=1e-4)


async def test_many_requests_in_flight_get_what_they_get_alone(folder, standin):
    async with opened(folder, standin, concurrency=8) as policy:
        alone = [await policy.complete(OPENING, SAMPLING, seed=seed) for seed in range(4)]
        together = await asyncio.gather(*(policy.complete(OPENING, SAMPLING, seed=seed) for seed in range(4)))
        assert policy.engine.in_flight == 0
    assert [c.token_ids for c in alone] == [c.token_ids for c in together]


@pytest.mark.parametrize("changes", [{"temperature": 0.6}, {"top_p": 0.9}, {"top_k": 4}])
async def test_unprocessed_log_probabilities_of_biased_sampling_are_no_log_probabilities(folder, changes):
    with serving(StandIn(processed=False)) as raw, serving(StandIn()) as processed:
        async with opened(folder, raw) as policy:
            biased = await policy.complete(OPENING, Sampling(max_tokens=4, **changes), seed=0)
            plain = await policy.complete(OPENING, Sampling(max_tokens=4), seed=0)
        async with opened(folder, processed) as policy:
            told = await policy.complete(OPENING, Sampling(max_tokens=4, **changes), seed=0)
    assert biased.token_ids and biased.logprobs is None
    assert len(plain.logprobs) == len(told.logprobs) == 4
    with pytest.raises(ValueError, match="no log-probabilities"):
        sample_from([biased], advantage=1.0, group="g", role=Role.AGENT)


async def test_each_sample_carries_the_version_of_its_weights(folder, standin):
    async with opened(folder, standin) as policy:
        assert (await policy.complete(OPENING, SAMPLING, seed=0)).weight_version == 0
        policy.load_weights(weights(seed=1), version=7)
        assert (await policy.complete(OPENING, SAMPLING, seed=0)).weight_version == 7
        standin.label = "8"
        with pytest.raises(ArrivalError, match="sampled with weights of 8; wanted version 7"):
            await policy.complete(OPENING, SAMPLING, seed=0)


async def test_new_weights_sample_as_the_same_weights_elsewhere(folder, standin):
    torch_policy = TorchPolicy.from_folder(folder)
    torch_policy.load_weights(weights(seed=1), 1)
    async with opened(folder, standin) as policy:
        before = policy.score(range(30, 60))
        policy.load_weights(weights(seed=1), version=1)
        assert isinstance(policy, ProvingPolicy)
        assert policy.score(range(30, 60)) == pytest.approx(torch_policy.score(range(30, 60)), abs=1e-4)
        assert policy.score(range(30, 60)) != pytest.approx(before, abs=1e-2)
        with pytest.raises(PolicyError, match="temperature 1 only"):
            policy.score(range(30, 60), temperature=0.5)
    torch_policy.close()


async def test_weights_are_not_changed_under_a_completion(folder, standin):
    standin.slow = 0.2
    async with opened(folder, standin) as policy:
        flying = asyncio.ensure_future(policy.complete(OPENING, SAMPLING, seed=0))
        await asyncio.sleep(0)
        with pytest.raises(PolicyError, match="in flight"):
            policy.load_weights(weights(seed=1), version=1)
        await flying


async def test_a_prompt_beyond_the_context_is_the_agents_own_doing(folder, standin):
    long = Conversation(messages=(Message(role="user", content="word " * 400),))
    async with opened(folder, standin) as policy:
        with pytest.raises(ContextExhaustedError, match="the context of"):
            await policy.complete(long, SAMPLING, seed=0)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, b"it broke", "status 500"),
        (200, b"", "an empty body"),
        (200, b"<html>", "no answer of"),
        (200, b'{"choices": []}', "without a choice"),
        (200, b'{"choices": [{"token_ids": [5], "finish_reason": "abort"}]}', "ended by 'abort'"),
        (200, b'{"choices": [{"token_ids": [5], "finish_reason": "stop"}]}', "without a log-probability"),
    ],
)
async def test_a_failing_server_is_an_infrastructure_fault(folder, standin, status, body, told):
    async with opened(folder, standin) as policy:
        standin.broken = (status, body)
        policy.engine.client.settings = policy.engine.client.settings.__class__(retries=1, backoff_seconds=0.0)
        with pytest.raises(InfrastructureError, match=told):
            await policy.complete(OPENING, SAMPLING, seed=0)


async def test_a_hanging_server_is_given_up_at_the_deadline(folder, standin):
    async with opened(folder, standin) as policy:
        standin.slow = 2.0
        with pytest.raises(InfrastructureError, match="deadline"):
            await policy.complete(OPENING, SAMPLING, seed=0, deadline=time.monotonic() + 0.1)
        assert policy.engine.in_flight == 0


async def test_a_server_whose_weights_cannot_be_changed_samples_and_says_what_it_lacks(folder):
    with serving(StandIn(dev=False)) as plain:
        async with opened(folder, plain) as policy:
            assert (await policy.complete(OPENING, SAMPLING, seed=0)).token_ids
            with pytest.raises(PolicyError, match="worker-extension-cls"):
                policy.load_weights(weights(), version=1)


async def test_another_model_than_the_one_served_is_refused(folder, standin):
    with pytest.raises(PolicyError, match="serves spade; wanted other"):
        async with VllmPolicy.open(folder, VllmSettings(url=f"{standin.url}#other")):
            pass


async def test_a_colocated_server_sleeps_during_an_update(folder, standin):
    async with opened(folder, standin, placement="colocated") as policy:
        with policy.resting():
            assert standin.slept == ["/sleep"]
    assert standin.slept == ["/sleep", "/wake_up"]
    async with opened(folder, standin) as policy:
        with policy.resting():
            assert len(standin.slept) == 2


def test_settings_out_of_range_are_refused():
    for wrong in ({"memory_share": 1.5}, {"cache_gib": 0.5}, {"concurrency": 0}, {"start_seconds": 0.0}):
        with pytest.raises(ValueError, match="wanted"):
            VllmSettings(**wrong)


def test_scores_of_the_head_that_samples_are_those_of_the_model():
    worker = StandIn().worker
    with torch.inference_mode():
        wanted = tiny()(torch.tensor([[5, 6, 7]])).logits[0]
    torch.testing.assert_close(worker.logits([5, 6, 7]), wanted, atol=1e-4, rtol=0)
