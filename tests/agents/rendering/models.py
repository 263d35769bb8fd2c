"""Small tokenizers with the real templates of models that cannot be had offline."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from spade_agents.policy.chat_template import HuggingFaceTemplate
from spade_agents.policy.tokenizer import PlainTokenizer

TEMPLATES = Path(__file__).parent / "templates"

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>")

# How Qwen's and Llama's tokenizers cut text before merging, so that pieces meet at the same places as in theirs.
_WORDS = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MERGES = [("a", "c"), ("ac", "t"), ("Ċ", "Ċ"), ("o", "n"), ("Ġ", "o"), (">", "Ċ"), (".", "Ċ"), ('"', "}"), ("}", "Ċ")]


@cache
def small_tokenizer(special: tuple[str, ...], tags: tuple[str, ...]) -> PlainTokenizer:
    """All bytes, a few merges that cross where messages meet, and the structural tokens of a family."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, *(a + b for a, b in _MERGES)])}
    inner = Tokenizer(BPE(vocabulary, _MERGES))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_WORDS, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(token, special=True) for token in special])
    inner.add_tokens([AddedToken(token, special=False) for token in tags])
    return PlainTokenizer(inner)


@cache
def model(name: str, *, source: str | None = None) -> tuple[PlainTokenizer, HuggingFaceTemplate]:
    """A tokenizer of the family of `templates/NAME.jinja`, and that template (or `source`) applied by transformers."""
    from transformers import PreTrainedTokenizerFast

    llama, tagged = name.startswith("llama"), name != "smollm2"
    tokenizer = small_tokenizer(LLAMA if llama else CHATML, () if llama or not tagged else TAGS)
    options: dict[str, Any] = {"bos_token": LLAMA[0]} if llama else {}
    text = source if source is not None else (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer.inner, chat_template=text, **options)
    return tokenizer, HuggingFaceTemplate(theirs)
