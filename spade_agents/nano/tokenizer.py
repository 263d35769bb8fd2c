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

__all__ = ["SPECIAL_TOKENS", "fragments", "save_tokenizer", "train_tokenizer", "word_ids"]

SPECIAL_TOKENS = (
    "<|pad|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
OPENING = "```python\nfrom spade_environments import Call, Goal, ToolEnv, ToolError, tool\n\n\nclass "
"""How every design begins; one token."""
MARK = "\x02"
SPACE = "\x03"
_WORD = re.compile("[A-Za-z]{2,}")
_FREQUENT = 5
_ATOM = re.compile(r"[A-Za-z]+|[^A-Za-z]")
_LINE = re.compile(r"\n[\n ]*(?:@tool\n +def )?[^\n]*|[^\n]+")


def train_tokenizer(
    texts: Sequence[str], *, size: int, fragment_count: int, merges: int, words: Iterable[str], varying: frozenset[str]
) -> Tokenizer:
    """A tokenizer for texts like `texts`.

    Args:
        texts: whole rendered conversations; structural tokens spelled.
        size: tokens in all.
        fragment_count: how many pieces of boilerplate get a token of their own.
        merges: how many pairs are merged, for words that have no token of their own.
        words: words that get one whatever their frequency; the most frequent ones of `texts` fill the rest.
        varying: words that no piece of boilerplate may hold (those that documents put into programs).
    """
    bare = [re.sub("|".join(map(re.escape, SPECIAL_TOKENS)), "\n", text) for text in texts]
    pieces = [OPENING, *fragments(bare, count=fragment_count - 1, kept_apart=varying)]
    cut = re.compile("|".join(map(re.escape, sorted(pieces, key=len, reverse=True)))) if pieces else None
    rest = [part for text in bare for part in (cut.split(text) if cut else [text])]
    vocabulary, pairs = _learned(rest, merges)
    for word in _whole_words(rest, words):
        if len(vocabulary) + len(pieces) >= size:
            break
        vocabulary.setdefault(_spelled(word), len(vocabulary))
    tokenizer = _processors(Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=True)))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return tokenizer


def _learned(texts: Sequence[str], merges: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merged pairs of a byte-pair encoding with special tokens and bytes in front."""
    learner = _processors(Tokenizer(models.BPE()))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=len(SPECIAL_TOKENS) + len(alphabet) + merges,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    return dict(model["vocab"]), [tuple(pair) for pair in model["merges"]]


def _whole_words(texts: Sequence[str], words: Iterable[str]) -> list[str]:
    used = Counter(word for text in texts for word in _WORD.findall(text))
    frequent = sorted(
        (word for word, count in used.items() if count >= _FREQUENT), key=lambda word: (-used[word], word)
    )
    return list(dict.fromkeys([*sorted(words), *frequent]))


def _spelled(word: str) -> str:
    """A word as the model sees it: marked, in the alphabet that stands for bytes."""
    ((spelled, _),) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(MARK + word)
    return str(spelled)


def _processors(tokenizer: Tokenizer) -> Tokenizer:
    """Marks every word, sign and digit; the space between two words is left out and put back."""
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
    return tokenizer


def word_ids(tokenizer: Tokenizer) -> list[int]:
    """Tokens that are whole lower-case words of at least three letters."""
    start = _spelled("")
    return sorted(
        index
        for token, index in tokenizer.get_vocab().items()
        if token.startswith(start) and re.fullmatch("[a-z]{3,}", token[len(start) :])
    )


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
