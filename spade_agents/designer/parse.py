"""A designer's completion to a source, or to the reason why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from spade_agents.trajectory import Completion

__all__ = ["DesignFault", "ParsedDesign", "parse_design", "parse_hint"]

_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class DesignFault(StrEnum):
    """Why a completion holds no environment."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    NO_BLOCK = "no_block"
    SEVERAL_BLOCKS = "several_blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDesign:
    """A source, or a fault with what to tell the designer."""

    source: str | None
    fault: DesignFault | None = None
    repair: str = ""


def parse_design(completion: Completion) -> ParsedDesign:
    """The one fenced Python block of a completion; never raises."""
    text = completion.text
    if completion.finish == "length":
        return _fault(DesignFault.TRUNCATED, "the answer was cut by its length limit: write a shorter program")
    if not text.strip():
        return _fault(DesignFault.EMPTY, "the answer was empty: give one ```python block")
    blocks = _BLOCK.findall(text)
    if not blocks:
        return _fault(DesignFault.NO_BLOCK, "no fenced block was found: put the program in one ```python block")
    if len(blocks) > 1:
        return _fault(DesignFault.SEVERAL_BLOCKS, f"{len(blocks)} fenced blocks were found: give exactly one")
    return ParsedDesign(source=blocks[0].rstrip() + "\n")


def parse_hint(completion: Completion) -> str | None:
    """The hint's text, white space collapsed, or `None` where it is empty or was cut."""
    text = " ".join(completion.text.split())
    return text if text and completion.finish != "length" else None


def _fault(fault: DesignFault, repair: str) -> ParsedDesign:
    return ParsedDesign(source=None, fault=fault, repair=repair)
