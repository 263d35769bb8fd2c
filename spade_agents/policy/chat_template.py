"""A model folder's own chat template, applied by transformers: what our renderer is held against at start-up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spade_agents.errors import CheckpointError
from spade_agents.rendering.llama3 import LLAMA3_DATE

__all__ = ["FolderTemplate", "HuggingFaceTemplate", "load_template"]


class HuggingFaceTemplate:
    """The template of a transformers tokenizer; dates in prompts are fixed, see `LLAMA3_DATE`."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @property
    def source(self) -> str:
        """The template's text."""
        return str(self.tokenizer.chat_template)

    def apply(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        add_generation_prompt: bool,
    ) -> list[int]:
        """Tokens of a conversation."""
        ids = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=None if tools is None else [dict(tool) for tool in tools],
            add_generation_prompt=add_generation_prompt,
            tokenize=True,
            return_dict=False,
            date_string=LLAMA3_DATE,
        )
        return list(ids)


class FolderTemplate(HuggingFaceTemplate):
    """The template of a Hugging Face folder."""

    def __init__(self, folder: Path) -> None:
        from transformers import PreTrainedTokenizerFast

        try:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder} has no tokenizer that transformers reads: {error}") from error
        super().__init__(tokenizer)


def load_template(folder: Path) -> FolderTemplate | None:
    """The folder's chat template, or `None` where it has none; transformers is imported only where it has one.

    Raises:
        CheckpointError: the tokenizer's files cannot be read.
    """
    config = folder / "tokenizer_config.json"
    if (folder / "chat_template.jinja").is_file():
        return FolderTemplate(folder)
    try:
        fields = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{config} cannot be read: {error}") from error
    return FolderTemplate(folder) if isinstance(fields, dict) and fields.get("chat_template") else None
