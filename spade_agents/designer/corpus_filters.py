"""What makes a text unfit to ground a design: too short, mostly marks, mostly repetition, or half a character."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["FilterSettings", "Unfit", "unfit"]


class Unfit(StrEnum):
    """Why a text is left out."""

    TOO_SHORT = "too short"
    FEW_LETTERS = "few letters"
    ODD_WORDS = "odd words"
    REPEATED = "repeated lines"
    BROKEN = "broken characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings:
    """Bounds of a fit text (after Rae et al. 2021, loose enough for code).

    Attributes:
        min_words: words, parted by white space.
        min_letters: share of letters among the characters that are no white space.
        min_word_length, max_word_length: mean characters of a word.
        max_repeated: share of lines that stood before in the same text.
        max_broken: share of replacement and control characters.
    """

    min_words: int = 25
    min_letters: float = 0.5
    min_word_length: float = 2.0
    max_word_length: float = 14.0
    max_repeated: float = 0.4
    max_broken: float = 0.005


def unfit(text: str, settings: FilterSettings) -> Unfit | None:
    """The first reason why a text is left out, or `None`."""
    words = text.split()
    if len(words) < settings.min_words:
        return Unfit.TOO_SHORT
    solid = sum(map(len, words))
    if sum(map(_is_broken, text)) > settings.max_broken * solid:
        return Unfit.BROKEN
    if sum(map(str.isalpha, text)) < settings.min_letters * solid:
        return Unfit.FEW_LETTERS
    if not settings.min_word_length <= solid / len(words) <= settings.max_word_length:
        return Unfit.ODD_WORDS
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    repeated = len(lines) - len(Counter(lines))
    return Unfit.REPEATED if repeated > settings.max_repeated * len(lines) else None


def _is_broken(character: str) -> bool:
    return character == "\ufffd" or (character < " " and character not in "\n\t\r") or "\ud800" <= character <= "\udfff"
