"""TorchPolicy: exact tokens over several turns, concurrent requests, folders, deadlines, new weights."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
import torch

from spade_agents.errors import CheckpointError, ContextExhaustedError, InfrastructureError, PolicyError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.torch_policy import TorchPolicy
from spade_agents.trajectory import Role, sample_from
from spade_environments import ToolSpec
from tests.agents.tiny import llama, tokenizer

TOOL = ToolSpec(name="act", description="Act.", parameters={"type": "object", "properties": {}})
OPENING = Conversation(
    messages=(Message(role="system", content="act"), Message(role="user", content="go")), tools=(TOOL,)
)
SAMPLING = Sampling(max_tokens=12)


def model(seed: int = 0, **changes):
    return llama(vocabulary=tokenizer().vocabulary_size, seed=seed, **changes)


@pytest.fixture
def policy():
    policy = TorchPolicy.from_model(model(), tokenizer(), style="compact", name="tiny")
    yield policy
    policy.close()


async def test_turns_are_appended_and_train_as_one_sample(policy):
    conversation, completions = OPENING, []
    for turn in range(3):
        completion = await policy.complete(conversation, SAMPLING, seed=turn)
        completions.append(completion)
        said = Message(role="assistant", content=completion.text, calls=completion.calls)
        conversation = conversation.then(said, tokens=completion.prompt_ids + completion.token_ids)
        conversation = conversation.then(Message(role="tool", content=f"result {turn}"))
    sample = sample_from(completions, advantage=1.0, group="g", role=Role.AGENT)
    assert sum(sample.mask) == sum(len(c.token_ids) for c in completions)
    scores = [0.0, *policy.score(sample.token_ids)]
    ours = torch.tensor([s for s, trained in zip(scores, sample.mask, strict=True) if trained])
    sampled = torch.tensor([s for s, trained in zip(sample.logprobs, sample.mask, strict=True) if trained])
    torch.testing.assert_close(ours, sampled, atol=1e-4, rtol=0)


async def test_requests_at_once_get_the_tokens_they_get_alone(policy):
    alone = [await policy.complete(OPENING, SAMPLING, seed=seed) for seed in range(6)]
    together = await asyncio.gather(*(policy.complete(OPENING, SAMPLING, seed=seed) for seed in range(6)))
    assert [c.token_ids for c in alone] == [c.token_ids for c in together]
    assert len({c.token_ids for c in alone}) > 1


async def test_the_event_loop_stays_live_while_tokens_are_sampled(policy):
    task = asyncio.create_task(policy.complete(OPENING, Sampling(max_tokens=150, temperature=0.0), seed=0))
    ticks = 0
    while not task.done():
        await asyncio.sleep(0)
        ticks += 1
    assert ticks > 3


async def test_a_prompt_past_the_context_is_refused_and_the_context_s_end_cuts(policy):
    filler = Message(role="user", content="x" * 600)
    with pytest.raises(ContextExhaustedError, match="512"):
        await policy.complete(OPENING.then(filler), SAMPLING, seed=0)
    room = 512 - len(policy.renderer.render_prompt(OPENING.then(Message(role="user", content=""))))
    nearly = OPENING.then(Message(role="user", content="x" * (room - 4)))
    completion = await policy.complete(nearly, Sampling(max_tokens=50, temperature=2.0), seed=0)
    assert len(completion.token_ids) <= 4


async def test_a_passed_deadline_is_an_infrastructure_error_for_that_request_alone(policy):
    late = policy.complete(OPENING, SAMPLING, seed=0, deadline=time.monotonic() - 1)
    fine = policy.complete(OPENING, SAMPLING, seed=0, deadline=time.monotonic() + 60)
    results = await asyncio.gather(late, fine, return_exceptions=True)
    assert isinstance(results[0], InfrastructureError)
    assert results[1].token_ids


async def test_a_cancelled_completion_does_not_stop_the_others(policy):
    long = asyncio.create_task(policy.complete(OPENING, Sampling(max_tokens=300), seed=0))
    other = asyncio.create_task(policy.complete(OPENING, SAMPLING, seed=1))
    await asyncio.sleep(0)
    long.cancel()
    assert (await other).token_ids
    assert (await policy.complete(OPENING, SAMPLING, seed=1)).token_ids == other.result().token_ids


async def test_new_weights_carry_their_version_and_change_the_tokens(policy):
    old = await policy.complete(OPENING, SAMPLING, seed=0)
    policy.load_weights(model(seed=1).state_dict(), version=7)
    new = await policy.complete(OPENING, SAMPLING, seed=0)
    assert (old.weight_version, new.weight_version, policy.info.weight_version) == (0, 7, 7)
    assert old.token_ids != new.token_ids


async def test_weights_are_not_swapped_under_a_completion(policy):
    task = asyncio.create_task(policy.complete(OPENING, Sampling(max_tokens=200, temperature=0.0), seed=0))
    await asyncio.sleep(0)
    with pytest.raises(PolicyError, match="in flight"):
        policy.load_weights(model(seed=1).state_dict(), version=7)
    assert (await task).weight_version == 0


async def test_weights_may_be_swapped_right_after_a_completion_or_a_cancelled_one(policy):
    for version in range(1, 6):
        await policy.complete(OPENING, SAMPLING, seed=version)
        policy.load_weights(model(seed=version).state_dict(), version=version)
        task = asyncio.create_task(policy.complete(OPENING, Sampling(max_tokens=300), seed=0))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        policy.load_weights(model(seed=version).state_dict(), version=version)
    assert policy.info.weight_version == 5


async def test_diverged_weights_are_an_error_and_not_a_silent_token(policy):
    state = {name: tensor.clone() for name, tensor in model().state_dict().items()}
    state["model.norm.weight"][0] = torch.nan
    policy.load_weights(state, version=1)
    with pytest.raises(PolicyError, match="diverged"):
        await policy.complete(OPENING, SAMPLING, seed=0)
    policy.load_weights(model().state_dict(), version=2)
    assert (await policy.complete(OPENING, SAMPLING, seed=0)).token_ids


async def test_a_folder_gives_the_same_policy(policy, tmp_path):
    model().save_pretrained(tmp_path)
    tokenizer().inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "spade.json").write_text(json.dumps({"template_family": "hermes", "style": "compact", "step": 3}))
    loaded = TorchPolicy.from_folder(tmp_path)
    assert (loaded.style, loaded.info.weight_version) == ("compact", 0)
    one, two = [await p.complete(OPENING, SAMPLING, seed=0) for p in (policy, loaded)]
    assert (one.prompt_ids, one.token_ids) == (two.prompt_ids, two.token_ids)
    loaded.close()


async def test_a_message_may_end_with_its_first_call_and_is_closed_by_what_follows():
    # With a head of zeros all tokens are equally likely, the end of a call among them.
    call_end = tokenizer().token_to_id("</tool_call>")
    calling = model(tie_word_embeddings=False)
    with torch.no_grad():
        calling.lm_head.weight.zero_()
    policy = TorchPolicy.from_model(calling, tokenizer(), one_call=True)
    with pytest.raises(PolicyError, match="spells"):
        TorchPolicy.from_model(model(), tokenizer(tags=False), one_call=True)
    found = [await policy.complete(OPENING, Sampling(max_tokens=400), seed=seed) for seed in range(12)]
    ended = [completion for completion in found if completion.token_ids[-1] == call_end]
    assert ended and all(completion.finish != "length" for completion in ended)
    assert all(call_end not in completion.token_ids[:-1] for completion in found)
    kept = ended[0].prompt_ids + ended[0].token_ids
    said = Message(role="assistant", content=ended[0].text)
    after = OPENING.then(said, tokens=kept).then(Message(role="tool", content="r"))
    assert policy.renderer.render_prompt(after)[len(kept)] == policy.renderer.end_id
    policy.close()


async def test_bf16_samples_near_the_fp32_distribution():
    policy = TorchPolicy.from_model(model(), tokenizer(), dtype=torch.bfloat16)
    completion = await policy.complete(OPENING, SAMPLING, seed=0)
    exact = TorchPolicy.from_model(model(), tokenizer())
    scores = exact.score((*completion.prompt_ids, *completion.token_ids))[-len(completion.token_ids) :]
    assert max(abs(a - b) for a, b in zip(scores, completion.logprobs, strict=True)) < 0.5
    policy.close()
    exact.close()


def test_a_folder_that_is_no_model_says_what_is_missing(tmp_path):
    with pytest.raises(CheckpointError, match=r"config\.json"):
        TorchPolicy.from_folder(tmp_path)
    model().save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        TorchPolicy.from_folder(tmp_path)
    tokenizer().inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "spade.json").write_text('{"template_family": "other"}')
    with pytest.raises(CheckpointError, match="other"):
        TorchPolicy.from_folder(tmp_path)
    (tmp_path / "spade.json").write_text('{"style": "wordy"}')
    with pytest.raises(CheckpointError, match="wordy"):
        TorchPolicy.from_folder(tmp_path)
    (tmp_path / "spade.json").unlink()
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(CheckpointError, match="safetensors"):
        TorchPolicy.from_folder(tmp_path)
