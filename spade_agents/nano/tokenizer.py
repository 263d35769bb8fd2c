"""The nano tokenizer: words that read the same everywhere, and one token for each frequent piece of code.

Every word, sign and digit is marked where it begins, and the space between two words is left out, so that a noun has
the same tokens in a document, a program, a tool's schema and a call. Lossless for every text without U+0002 and U+0003.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

__all__ = ["SPECIAL_TOKENS", "fragments", "save_tokenizer", "train_tokenizer"]

SPECIAL_TOKENS = (
    "<|pad|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
MARK = "\x02"
SPACE = "\x03"
_ATOM = re.compile(r"[A-Za-z]+|[^A-Za-z]")
_LINE = re.compile(r"\n[\n ]*(?:@tool\n +def )?[^\n]*|[^\n]+")


def train_tokenizer(texts: Sequence[str], *, size: int, fragment_count: int, kept_apart: Iterable[str]) -> Tokenizer:
    """A tokenizer of `size` tokens for texts like `texts`.

    Args:
        texts: whole rendered conversations; structural tokens spelled.
        size: vocabulary, special tokens, bytes and fragments included.
        fragment_count: how many pieces of boilerplate get a token of their own.
        kept_apart: words that no piece may hold (those that documents put into programs).
    """
    bare = [re.sub("|".join(map(re.escape, SPECIAL_TOKENS)), "\n", text) for text in texts]
    pieces = fragments(bare, count=fragment_count, kept_apart=frozenset(kept_apart))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(f"(?<=[A-Za-z]){SPACE}(?=[A-Za-z])"), "removed"),
            pre_tokenizers.Split(Regex("[A-Za-z]+|[0-9]|[^A-Za-z0-9]+"), "isolated"),
            pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always", split=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteLevel(),
            decoders.Replace(Regex(f"(?<=[A-Za-z]){MARK}(?=[A-Za-z])"), " "),
            decoders.Replace(MARK, ""),
            decoders.Replace(SPACE, " "),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(pieces),
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    cut = re.compile("|".join(map(re.escape, sorted(pieces, key=len, reverse=True)))) if pieces else None
    rest = [part for text in bare for part in (cut.split(text) if cut else [text])]
    tokenizer.train_from_iterator(rest, trainer)
    tokenizer.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return tokenizer


def fragments(texts: Sequence[str], *, count: int, kept_apart: frozenset[str]) -> list[str]:
    """The pieces of boilerplate that save most tokens: what stands between two words that vary, or a line's end.

    Each ends with a sign, so that no word is ever cut behind it; cutting where the varying words are keeps the pieces
    alike wherever those words stand.
    """
    found: Counter[str] = Counter()
    for text in texts:
        run = ""
        for atom in [*_ATOM.findall(text), "0"]:
            if atom[0].isdigit() or atom in kept_apart:
                found.update(_pieces(run))
                run = ""
            else:
                run += atom
    worth = {text: used * (len(_ATOM.findall(text)) - 1) for text, used in found.items() if _may_stand(text)}
    return sorted(worth, key=lambda text: (-worth[text], text))[:count]


def _pieces(run: str) -> list[str]:
    return _LINE.findall(run)


def _may_stand(text: str) -> bool:
    return len(text) > 1 and not text[-1].isalpha() and "_" not in (text[0], text[-1])


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, context: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` as a Hugging Face folder has them."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "pad_token": "<|pad|>",
        "eos_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
