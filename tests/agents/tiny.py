"""A byte-level ChatML tokenizer and a tiny Llama, made in memory."""

from __future__ import annotations

from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from spade_agents.policy.tokenizer import PlainTokenizer

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")


@cache
def tokenizer(*, tags: bool = True, merges: bool = True) -> PlainTokenizer:
    """All bytes, a few merges, ChatML tokens; the call tags are not special, as in Qwen3."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("a", "c"), ("ac", "t"), ("Ċ", "Ċ"), ("o", "n"), ("Ġ", "o")] if merges else []
    vocabulary = {token: number for number, token in enumerate([*alphabet, *(a + b for a, b in pairs)])}
    inner = Tokenizer(BPE(vocabulary, pairs))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(token, special=True) for token in CHATML])
    if tags:
        inner.add_tokens([AddedToken(token, special=False) for token in TAGS])
    return PlainTokenizer(inner)


def llama(*, vocabulary: int, seed: int = 0, **changes: Any) -> Any:
    """A random LlamaForCausalLM in fp32, large enough initial weights for peaked distributions."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "initializer_range": 0.2,
        **changes,
    }
    return LlamaForCausalLM(LlamaConfig(**config)).eval()
