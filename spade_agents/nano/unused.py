"""Words that the warm start never imitated, brought among those that it did.

Training pushes all tokens that are never right in one common direction, away from those that are. Copying heads find a
word whatever it is, but the output then shuns it. Taking the common direction out of the unused words' embeddings, and
putting in that of the used ones, lets them be copied like any other.
"""

from __future__ import annotations

from typing import Any

import torch

from spade_agents.nano.grammar.words import all_words, warm_words
from spade_agents.policy.tokenizer import PlainTokenizer

__all__ = ["settle_unused_words"]


def settle_unused_words(model: Any, tokenizer: PlainTokenizer) -> int:
    """Move the embeddings of the lists' words that no warm-up program uses; returns how many there are."""
    used = _single(tokenizer, warm_words())
    unused = _single(tokenizer, all_words() - warm_words())
    if not used or not unused:
        return 0
    with torch.no_grad():
        embedding = model.get_input_embeddings().weight
        embedding[unused] += embedding[used].mean(0) - embedding[unused].mean(0)
    return len(unused)


def _single(tokenizer: PlainTokenizer, words: frozenset[str]) -> list[int]:
    encoded = (tokenizer.encode(word) for word in sorted(words))
    return [ids[0] for ids in encoded if len(ids) == 1]
