"""A Hugging Face fast tokenizer behind the renderer's Protocol: content never becomes a special token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spade_agents.errors import CheckpointError

__all__ = ["PlainTokenizer", "load_tokenizer"]

_TAG = re.compile(r"<[^<>\s]*>")


class PlainTokenizer:
    """Wraps a `tokenizers.Tokenizer`.

    Added tokens are matched in raw text by the library, whether special or not. Here a text is cut after the first
    character of each match of a special token or a tag, so that content which spells `<|im_end|>` or
    `</tool_response>` stays content; other added tokens (frequent pieces of plain text) are content like any other.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.inner = tokenizer
        tokens = tokenizer.get_added_tokens_decoder().values()
        structural = (token.content for token in tokens if token.special or _TAG.fullmatch(token.content))
        added = sorted(structural, key=len, reverse=True)
        self._added = re.compile("|".join(map(re.escape, added))) if added else None

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, added ones included."""
        return int(self.inner.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._parts(text):
            ids += self.inner.encode(part, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.inner.decode(list(ids), skip_special_tokens=False))

    def token_to_id(self, token: str) -> int | None:
        found = self.inner.token_to_id(token)
        return None if found is None else int(found)

    def _parts(self, text: str) -> list[str]:
        if self._added is None:
            return [text]
        cuts = [match.start() + 1 for match in self._added.finditer(text)]
        # A cut piece may still hold a shorter added token that the longer match covered.
        parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        return [piece for part in parts for piece in (self._parts(part) if self._holds(part) else [part])]

    def _holds(self, part: str) -> bool:
        return self._added is not None and len(part) > 1 and self._added.search(part) is not None


def load_tokenizer(folder: Path) -> PlainTokenizer:
    """The tokenizer of a Hugging Face folder.

    Raises:
        CheckpointError: the folder has no readable `tokenizer.json`.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{folder} has no tokenizer.json; wanted a Hugging Face folder with a fast tokenizer")
    try:
        return PlainTokenizer(Tokenizer.from_file(str(path)))
    except Exception as error:  # the library raises a bare Exception for a file it cannot read
        raise CheckpointError(f"{path} cannot be read as a tokenizer: {error}") from error
