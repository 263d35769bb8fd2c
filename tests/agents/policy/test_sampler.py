"""The batched sampler: transformers' log-probabilities, independent rows, prefixes computed once."""

from __future__ import annotations

import random

import pytest
import torch

from spade_agents.errors import CheckpointError, PolicyError
from spade_agents.policy.choice import choose
from spade_agents.policy.kv_cache import PrefixStore
from spade_agents.policy.llama import Llama, LlamaShape
from spade_agents.policy.sampler import Sampler, SampleRequest, SamplerLimits
from spade_agents.policy.scoring import score_tokens
from tests.agents.tiny import llama

VOCABULARY = 101


@pytest.fixture(scope="module", params=["grouped heads, tied", "all heads, untied", "one head for all"])
def model(request):
    changes = {
        "grouped heads, tied": {"num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size": 48},
        "all heads, untied": {"num_key_value_heads": 4, "tie_word_embeddings": False, "rope_theta": 500.0},
        "one head for all": {"num_key_value_heads": 1, "num_hidden_layers": 3},
    }[request.param]
    return llama(vocabulary=VOCABULARY, **changes)


def sampling(model, **limits) -> Sampler:
    return Sampler(Llama(LlamaShape.from_config(model.config.to_dict()), model.state_dict()), SamplerLimits(**limits))


def requests(count: int = 12, **changes) -> list[SampleRequest]:
    source = random.Random(3)
    shared = tuple(source.randrange(VOCABULARY) for _ in range(40))
    prompts = [
        shared[: source.choice([1, 5, 40])] + tuple(source.choices(range(VOCABULARY), k=n % 5)) for n in range(count)
    ]
    return [
        SampleRequest(
            **{
                "prompt": prompt,
                "max_tokens": source.randrange(1, 30),
                "seed": number,
                "temperature": source.choice([0.5, 1.0, 1.7]),
                "stop": frozenset([7]),
                **changes,
            }
        )
        for number, prompt in enumerate(prompts)
    ]


def reference(model, prompt, tokens, temperature: float) -> torch.Tensor:
    ids = torch.tensor([[*prompt, *tokens]])
    with torch.inference_mode():
        logprobs = (model(ids).logits.float() / temperature).log_softmax(-1)[0, len(prompt) - 1 : -1]
    return logprobs.gather(1, torch.tensor(tokens)[:, None])[:, 0]


def test_log_probabilities_are_those_of_transformers_at_the_sampling_temperature(model):
    asked = requests()
    for request, sampled in zip(asked, sampling(model).run(asked), strict=True):
        expected = reference(model, request.prompt, sampled.token_ids, request.temperature)
        torch.testing.assert_close(torch.tensor(sampled.logprobs), expected, atol=1e-4, rtol=0)


def test_a_row_ends_with_its_stop_token_or_is_truncated(model):
    asked = requests(40)
    results = sampling(model).run(asked)
    assert any(not sampled.truncated for sampled in results)
    for request, sampled in zip(asked, results, strict=True):
        assert 7 not in sampled.token_ids[:-1]
        assert sampled.truncated == (sampled.token_ids[-1] != 7)
        assert len(sampled.token_ids) == request.max_tokens or not sampled.truncated


def test_a_row_s_tokens_do_not_depend_on_the_rows_beside_it(model):
    asked = requests()
    together = sampling(model).run(asked)
    few_rows = sampling(model, rows=3).run(asked)
    backwards = sampling(model).run(asked[::-1])[::-1]
    alone = [sampling(model).run([request])[0] for request in asked]
    for one, two, three, four in zip(together, few_rows, backwards, alone, strict=True):
        assert one.token_ids == two.token_ids == three.token_ids == four.token_ids


def test_an_arena_that_has_to_grow_or_to_wait_gives_the_same_tokens(model):
    asked = requests()
    expected = [sampled.token_ids for sampled in sampling(model).run(asked)]
    row = 256 * 2 * model.config.num_hidden_layers * model.config.num_key_value_heads * model.config.head_dim * 4
    for live_bytes in (1, 3 * row, 7 * row):
        grown = sampling(model, live_bytes=live_bytes).run(asked)
        assert [sampled.token_ids for sampled in grown] == expected


def test_other_seeds_give_other_tokens_and_the_same_seed_the_same(model):
    one, two, again = (
        sampling(model).run([SampleRequest(prompt=(1, 2), max_tokens=30, seed=seed, temperature=2.0)])[0]
        for seed in (1, 2, 1)
    )
    assert one.token_ids != two.token_ids
    assert one == again


def test_temperature_zero_is_greedy(model):
    (sampled,) = sampling(model).run([SampleRequest(prompt=(5, 6), max_tokens=12, seed=0, temperature=0.0)])
    ids = [5, 6]
    for token in sampled.token_ids:
        with torch.inference_mode():
            assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == token
        ids.append(token)
    torch.testing.assert_close(
        torch.tensor(sampled.logprobs), reference(model, (5, 6), sampled.token_ids, 1.0), atol=1e-4, rtol=0
    )


def test_equal_prompts_are_prefilled_once_and_shared_beginnings_are_copied(model):
    prompt = tuple(range(60))
    same = [SampleRequest(prompt=prompt, max_tokens=5, seed=seed) for seed in range(4)]
    near = SampleRequest(prompt=(*prompt[:50], 99, 98), max_tokens=5, seed=9)
    results = sampling(model).run([*same, near])
    assert sorted(sampled.cached for sampled in results) == [0, 50, 60, 60, 60]
    for request, sampled in zip([*same, near], results, strict=True):
        expected = reference(model, request.prompt, sampled.token_ids, 1.0)
        torch.testing.assert_close(torch.tensor(sampled.logprobs), expected, atol=1e-4, rtol=0)


def test_a_continued_conversation_computes_only_what_is_new(model):
    sampler = sampling(model)
    prompt = tuple(range(20))
    (first,) = sampler.run([SampleRequest(prompt=prompt, max_tokens=6, seed=0, keep=True)])
    longer = (*prompt, *first.token_ids, 3, 4, 5)
    (second,) = sampler.run([SampleRequest(prompt=longer, max_tokens=6, seed=1)])
    assert second.cached == len(prompt) + len(first.token_ids) - 1
    (fresh,) = sampling(model).run([SampleRequest(prompt=longer, max_tokens=6, seed=1)])
    assert fresh.token_ids == second.token_ids
    torch.testing.assert_close(torch.tensor(second.logprobs), torch.tensor(fresh.logprobs), atol=1e-4, rtol=0)


def test_the_context_s_end_truncates_and_a_full_context_is_refused(model):
    sampler = sampling(model)
    (sampled,) = sampler.run([SampleRequest(prompt=(1,) * 509, max_tokens=50, seed=0)])
    assert len(sampled.token_ids) == 3 and sampled.truncated
    with pytest.raises(PolicyError, match="512"):
        sampler.submit(SampleRequest(prompt=(1,) * 512, max_tokens=1, seed=0))


def test_new_weights_change_the_tokens_and_drop_kept_prefixes(model):
    sampler = sampling(model)
    request = SampleRequest(prompt=tuple(range(40)), max_tokens=8, seed=0, keep=True)
    (old,) = sampler.run([request])
    assert len(sampler.prefixes) == 1
    other = llama(vocabulary=VOCABULARY, seed=5, **{k: getattr(model.config, k) for k in KEPT})
    sampler.load(other.state_dict())
    assert len(sampler.prefixes) == 0
    (new,) = sampler.run([request])
    assert new.token_ids != old.token_ids
    torch.testing.assert_close(
        torch.tensor(new.logprobs), reference(other, request.prompt, new.token_ids, 1.0), atol=1e-4, rtol=0
    )


KEPT = (
    "num_attention_heads",
    "num_key_value_heads",
    "num_hidden_layers",
    "tie_word_embeddings",
    "hidden_size",
    "rope_parameters",
)


def test_a_missing_tensor_is_named_and_the_old_weights_stay(model):
    sampler = sampling(model)
    before = score_tokens(sampler.model, range(9))
    state = dict(model.state_dict())
    del state["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(CheckpointError, match=r"model\.layers"):
        sampler.load(state)
    assert score_tokens(sampler.model, range(9)) == before


def test_a_cancelled_row_leaves_the_others_alone(model):
    asked = [SampleRequest(prompt=(n, n + 1), max_tokens=10, seed=n) for n in range(4)]
    expected = sampling(model).run(asked)
    sampler = sampling(model)
    keys = [sampler.submit(request) for request in asked]
    results = dict(sampler.step())
    sampler.cancel(keys[1])
    while not sampler.is_idle:
        results.update(sampler.step())
    assert keys[1] not in results
    assert all(results[keys[n]].token_ids == expected[n].token_ids for n in (0, 2, 3))


def test_scores_are_transformers_log_probabilities(model):
    ids = list(range(30))
    scores = score_tokens(sampling(model).model, ids, temperature=0.7)
    torch.testing.assert_close(torch.tensor(scores), reference(model, ids[:1], ids[1:], 0.7), atol=1e-4, rtol=0)


def test_another_architecture_is_refused():
    with pytest.raises(CheckpointError, match="gpt2"):
        LlamaShape.from_config({"model_type": "gpt2"})
    config = llama(vocabulary=11).config.to_dict()
    with pytest.raises(CheckpointError, match="yarn"):
        LlamaShape.from_config({**config, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}})


def settled(logits, uniform: float, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0):
    chosen = choose(
        torch.tensor([logits]),
        torch.tensor([uniform], dtype=torch.float64),
        temperature=torch.tensor([temperature]),
        top_k=torch.tensor([top_k]),
        top_p=torch.tensor([top_p]),
    )
    return int(chosen.tokens), float(chosen.logprobs.exp())


def test_a_uniform_number_is_inverted_through_the_distribution():
    logits = torch.tensor([0.5, 0.3, 0.2]).log().tolist()
    assert settled(logits, 0.49) == (0, pytest.approx(0.5))
    assert settled(logits, 0.51) == (1, pytest.approx(0.3))
    assert settled(logits, 0.81) == (2, pytest.approx(0.2))
    # At temperature 0.5 the probabilities are the squares over their sum 0.38: 0.658, 0.237, 0.105.
    assert settled(logits, 0.66, temperature=0.5) == (1, pytest.approx(0.09 / 0.38))


def test_top_k_and_top_p_renormalise_what_they_leave():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().tolist()
    assert settled(logits, 0.99, top_k=2) == (2, pytest.approx(0.3 / 0.8))
    assert settled(logits, 0.01, top_k=2) == (1, pytest.approx(0.5 / 0.8))
    assert settled(logits, 0.99, top_k=1) == (1, pytest.approx(1.0))
    assert settled(logits, 0.99, top_p=0.6) == (2, pytest.approx(0.3 / 0.8))
    assert settled(logits, 0.99, top_p=0.5) == (1, pytest.approx(1.0))
    assert settled(logits, 0.01, top_p=0.81) == (0, pytest.approx(0.2))


def test_the_prefix_store_keeps_its_bound_and_finds_the_longest_exact_prefix():
    memory = torch.zeros(1, 2, 1, 4, 2)
    store = PrefixStore(limit=3 * memory.nbytes)
    store.put((1, 2), memory)
    store.put((1, 2, 3), memory)
    store.put((9,), memory)
    assert store.take((1, 2, 3))[0] == 2
    assert store.take((1, 2, 3, 4))[0] == 3
    assert store.take((1, 2, 3, 4)) == (0, None)
    for number in range(10):
        store.put((5, number), memory)
    assert len(store) == 3 and store.used == 3 * memory.nbytes
    assert store.take((5, 0, 1)) == (0, None)
    assert store.take((5, 9, 1))[0] == 2
