"""The heads written into fresh weights copy before any training, and stay while they are held."""

from __future__ import annotations

import random

import pytest
import torch

from spade_agents.nano.build import build_tokenizer
from spade_agents.nano.copying import hold_copying_heads
from spade_agents.nano.grammar.words import all_words, warm_words
from spade_agents.nano.tokenizer import save_tokenizer
from spade_agents.nano.unused import settle_unused_words
from spade_agents.nano.warmup import NanoShape, new_model
from spade_agents.policy.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def model():
    return new_model(NanoShape(), vocabulary=1500, seed=0)


def test_fresh_weights_continue_what_stood_before(model):
    rng = random.Random(1)
    hits = total = 0
    for _ in range(12):
        runs = [[rng.randrange(300, 1500) for _ in range(8)] for _ in range(3)]
        row = [token for run in (*runs, *rng.sample(runs, 3)) for token in run]
        with torch.no_grad():
            guessed = model(torch.tensor([row])).logits[0].argmax(-1).tolist()
        places = [i for i in range(24, 47) if (i + 1) % 8]
        hits += sum(guessed[i] == row[i + 1] for i in places)
        total += len(places)
    assert hits > 0.15 * total  # a blind guess is right once in 1200


def test_a_held_head_gets_no_gradient_until_it_is_let_go():
    model = new_model(NanoShape(hidden=64, layers=2, heads=4, intermediate=64), vocabulary=50, seed=0)
    let_go = hold_copying_heads(model)
    size = 16

    def gradients():
        model.zero_grad()
        model(torch.arange(20)[None]).logits.square().mean().backward()
        return model.model.layers[0].self_attn.q_proj.weight.grad[:size], model.model.embed_tokens.weight.grad[:, 0]

    held, constant = gradients()
    assert not held.any()
    assert not constant.any()
    let_go()
    freed, constant = gradients()
    assert freed.any()
    assert not constant.any()


def test_a_shape_without_room_for_the_heads_is_refused():
    with pytest.raises(ValueError, match="cannot copy"):
        new_model(NanoShape(hidden=32, layers=1, heads=2, intermediate=64), vocabulary=50, seed=0)


def test_unused_words_move_among_the_used_ones_and_keep_their_differences(tmp_path):
    save_tokenizer(build_tokenizer(seed=0, programs=60), tmp_path, context=1024)
    tokenizer = load_tokenizer(tmp_path)
    model = new_model(NanoShape(hidden=64, layers=2, heads=4, intermediate=64), vocabulary=2048, seed=0)
    table = model.get_input_embeddings().weight
    used, unused = ([tokenizer.encode(word)[0] for word in sorted(words)]
                    for words in (warm_words(), all_words() - warm_words()))  # fmt: skip
    with torch.no_grad():
        table[unused] -= 3.0
    before = table[unused].clone()
    assert settle_unused_words(model, tokenizer) == len(unused)
    assert torch.allclose(table[unused].mean(0), table[used].mean(0), atol=1e-5)
    assert torch.allclose(table[unused] - table[unused][0], before - before[0], atol=1e-5)
