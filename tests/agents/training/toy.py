"""A toy Llama small enough for exact comparisons."""

from __future__ import annotations

import random

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from spade_agents.trajectory import Role, TrainingSample

VOCABULARY = 31


def toy_llama(seed: int = 0, **changes) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    settings = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
    }
    return LlamaForCausalLM(LlamaConfig(**(settings | changes))).eval()


def toy_samples(count: int = 6, seed: int = 0, *, temperature: float = 1.0) -> list[TrainingSample]:
    rng = random.Random(seed)
    samples = []
    for index in range(count):
        length = rng.randint(6, 20)
        mask = (*tuple(place > 2 and rng.random() < 0.7 for place in range(length - 1)), True)
        samples.append(
            TrainingSample(
                token_ids=tuple(rng.randrange(VOCABULARY) for _ in range(length)),
                mask=mask,
                logprobs=tuple(-rng.uniform(0.5, 5.0) if chosen else 0.0 for chosen in mask),
                advantage=(1.0, -1.0, 0.5)[index % 3],
                role=Role.AGENT,
                group=str(index // 2),
                temperature=temperature,
            )
        )
    return samples


def prompted_samples(groups: int = 2, each: int = 3, seed: int = 0) -> list[TrainingSample]:
    """Samples of a few prompts, each of several turns, with tool results that are not trained on."""
    rng = random.Random(seed)
    samples = []
    for group in range(groups):
        prompt = tuple(rng.randrange(VOCABULARY) for _ in range(12))
        for index in range(each):
            length = rng.randint(4, 20)
            mask = (*(False,) * 12, *(rng.random() < 0.7 for _ in range(length - 1)), True)
            samples.append(
                TrainingSample(
                    token_ids=prompt + tuple(rng.randrange(VOCABULARY) for _ in range(length)),
                    mask=mask,
                    logprobs=tuple(-rng.uniform(0.5, 5.0) if chosen else 0.0 for chosen in mask),
                    advantage=(1.0, -1.0, 0.5)[index % 3],
                    role=Role.AGENT,
                    group=str(group),
                    temperature=(0.6, 1.0)[group % 2],
                )
            )
    return samples
