"""The structural tokens of the Hermes/ChatML template, kept apart from the same characters in content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

__all__ = [
    "CALL",
    "CALL_END",
    "END",
    "OPTIONAL_TAGS",
    "RESULT",
    "RESULT_END",
    "START",
    "THINK",
    "THINK_END",
    "Tag",
    "split_at_tags",
]


class Tag(str):
    """A structural token; a plain `str` of the same characters is content and never becomes one."""

    __slots__ = ()


START: Final = Tag("<|im_start|>")
END: Final = Tag("<|im_end|>")
CALL: Final = Tag("<tool_call>")
CALL_END: Final = Tag("</tool_call>")
RESULT: Final = Tag("<tool_response>")
RESULT_END: Final = Tag("</tool_response>")
THINK: Final = Tag("<think>")
THINK_END: Final = Tag("</think>")
OPTIONAL_TAGS: Final = (CALL, CALL_END, RESULT, RESULT_END, THINK, THINK_END)
"""Those that a tokenizer may spell out, having no token of their own."""


def split_at_tags(text: str, tags: Sequence[Tag]) -> Iterator[str]:
    """The pieces of `text` in order, with each of `tags` that stands in it as a `Tag`."""
    while text:
        found = [(position, tag) for tag in tags if (position := text.find(tag)) >= 0]
        if not found:
            yield text
            return
        position, tag = min(found)
        if position:
            yield text[:position]
        yield tag
        text = text[position + len(tag) :]
