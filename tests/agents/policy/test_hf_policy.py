"""HfPolicy: any architecture; the same numbers as one forward pass, rows alone or together, and real templates."""

from __future__ import annotations

import asyncio

import pytest
import torch

from spade_agents.errors import CheckpointError, PolicyError
from spade_agents.messages import Conversation, Message
from spade_agents.policy import Sampling, open_policy
from spade_agents.policy.hf_policy import HfPolicy
from spade_agents.policy.hf_sampler import HfSampler
from spade_agents.policy.sampler import SampleRequest
from spade_agents.rendering import Deviation, HermesRenderer
from tests.agents.rendering.models import model as templated
from tests.agents.tiny import tokenizer

GO = Conversation(messages=(Message(role="user", content="go"),))


def qwen(seed: int = 0, vocabulary: int | None = None):
    """A tiny Qwen2, which the fast policy does not read: its projections have biases."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary or tokenizer().vocabulary_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return Qwen2ForCausalLM(config).eval()


def drained(sampler: HfSampler, asked: list[SampleRequest]):
    keys = [sampler.submit(request) for request in asked]
    found = {}
    while not sampler.is_idle:
        found.update(sampler.step())
    return [found[key] for key in keys]


def requests(**changes) -> list[SampleRequest]:
    prompts = [(1, 2, 3), (9,), tuple(range(40)), (5, 6), (1, 2, 3)]
    return [
        SampleRequest(**{"prompt": prompt, "max_tokens": 4 + 5 * n, "seed": n, "stop": frozenset([7]), **changes})
        for n, prompt in enumerate(prompts)
    ]


def reference(model, prompt, tokens, temperature: float) -> torch.Tensor:
    ids = torch.tensor([[*prompt, *tokens]])
    with torch.inference_mode():
        logprobs = (model(ids).logits.float() / temperature).log_softmax(-1)[0, len(prompt) - 1 : -1]
    return logprobs.gather(1, torch.tensor(tokens)[:, None])[:, 0]


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_rows_padded_together_get_the_log_probabilities_they_get_alone(rows):
    model = qwen()
    asked = requests(temperature=0.8)
    alone = [drained(HfSampler(model, context_length=512), [request])[0] for request in asked]
    together = drained(HfSampler(model, context_length=512, rows=rows), asked)
    for request, one, sampled in zip(asked, alone, together, strict=True):
        assert sampled.token_ids == one.token_ids
        assert sampled.truncated == (sampled.token_ids[-1] != 7)
        expected = reference(model, request.prompt, sampled.token_ids, 0.8)
        torch.testing.assert_close(torch.tensor(sampled.logprobs), expected, atol=1e-4, rtol=0)


def test_temperature_zero_and_top_k_one_are_greedy_and_top_p_keeps_the_likeliest():
    model = qwen()
    for changes in ({"temperature": 0.0}, {"top_k": 1}, {"top_p": 1e-6}):
        (sampled,) = drained(
            HfSampler(model, context_length=512), [SampleRequest(prompt=(5, 6), max_tokens=8, seed=0, **changes)]
        )
        ids = [5, 6]
        for token in sampled.token_ids:
            with torch.inference_mode():
                assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)


def test_a_cancelled_row_leaves_the_others_alone_and_clear_forgets_all():
    model, asked = qwen(), requests()
    expected = drained(HfSampler(model, context_length=512), asked)
    sampler = HfSampler(model, context_length=512)
    keys = [sampler.submit(request) for request in asked]
    found = dict(sampler.step())
    sampler.cancel(keys[2])
    while not sampler.is_idle:
        found.update(sampler.step())
    assert keys[2] not in found
    assert all(found[keys[n]].token_ids == expected[n].token_ids for n in (0, 1, 3, 4))
    sampler.submit(asked[0])
    sampler.step()
    sampler.clear()
    assert sampler.is_idle


async def test_a_policy_completes_scores_and_takes_new_weights():
    policy = HfPolicy(qwen(), HermesRenderer(tokenizer(), style="compact"))
    sampling = Sampling(max_tokens=12)
    old, again = await asyncio.gather(*(policy.complete(GO, sampling, seed=0) for _ in range(2)))
    assert old.token_ids == again.token_ids and policy.info.has_tokens
    scores = policy.score((*old.prompt_ids, *old.token_ids))[-len(old.token_ids) :]
    torch.testing.assert_close(torch.tensor(scores), torch.tensor(old.logprobs), atol=1e-4, rtol=0)
    policy.load_weights(qwen(seed=5).state_dict(), version=3)
    new = await policy.complete(GO, sampling, seed=0)
    assert (new.weight_version, new.token_ids != old.token_ids) == (3, True)
    state = dict(qwen(seed=6).state_dict())
    del state["model.norm.weight"]
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight"):
        policy.load_weights(state, version=4)
    assert (await policy.complete(GO, sampling, seed=0)).token_ids == new.token_ids
    policy.close()


async def test_weights_are_not_swapped_under_a_completion():
    policy = HfPolicy(qwen(), HermesRenderer(tokenizer()))
    task = asyncio.create_task(policy.complete(GO, Sampling(max_tokens=100, temperature=0.0), seed=0))
    await asyncio.sleep(0)
    with pytest.raises(PolicyError, match="in flight"):
        policy.load_weights(qwen(seed=1).state_dict(), version=1)
    await task
    policy.close()


async def test_a_folder_of_another_architecture_is_opened_by_its_own_template(tmp_path):
    small, template = templated("qwen3")
    qwen(vocabulary=small.vocabulary_size).save_pretrained(tmp_path)
    template.tokenizer.save_pretrained(tmp_path)
    async with open_policy(str(tmp_path)) as policy:
        assert isinstance(policy, HfPolicy)
        assert (policy.renderer.family, policy.deviation) == ("qwen3_thinking", Deviation.THOUGHTS_KEPT)
        completion = await policy.complete(GO, Sampling(max_tokens=5), seed=0)
    assert len(completion.token_ids) == len(completion.logprobs) >= 1


async def test_a_folder_whose_template_no_family_renders_is_refused(tmp_path):
    small, template = templated("qwen3", source="{{ messages }}")
    qwen(vocabulary=small.vocabulary_size).save_pretrained(tmp_path)
    template.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="no known family"):
        async with open_policy(str(tmp_path)):
            pass
