"""Comparing answers as the release's environments do, by words and by value; algebra is left out."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

__all__ = ["parse", "verify"]

Parsed = list[Fraction | str]

_NUMBER = re.compile(r"[-+]?\d{1,40}(\.\d{1,40})?(/\d{1,40})?")


def parse(text: Any) -> Parsed:
    """What stands in an answer: its value where it is a number, and its words."""
    words = " ".join(str(text).replace("$", "").split()).strip(".").lower()
    plain = words.replace(",", "").replace(" ", "")
    try:
        return [Fraction(plain), words] if _NUMBER.fullmatch(plain) else [words] if words else []
    except (ValueError, ZeroDivisionError):  # 1.5/2, 1/0
        return [words]


def verify(gold: Any, target: Any) -> bool:
    """Whether two parsed answers have a value or their words in common."""
    one, other = (value if isinstance(value, list) else parse(value) for value in (gold, target))
    return any(left == right for left in one for right in other)
