"""A value in another form: what a text may give away without holding it as a whole token."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

__all__ = ["MIN_LENGTH", "disguises", "stands_disguised"]

MIN_LENGTH = 4
"""Characters of the shortest value that is looked for; chance makes shorter ones out of anything."""

_MIN_WORD = 6
"""The same for a value of letters alone: many a short word is another one backwards."""

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")


def disguises(value: str) -> Iterator[str]:
    """Other forms of a value, letters and digits only, lower case.

    >>> sorted(disguises("1203"))[:3]
    ['1203', '31323033', '3021']
    """
    plain = _compact(value)
    yield plain[::-1]
    yield plain.translate(_ROT13)
    for spelling in {value, value.lower(), value.upper()}:
        yield spelling.encode().hex()
        yield "".join(str(ord(letter)) for letter in spelling)
        yield _compact(base64.b64encode(spelling.encode()).decode())
    if value.isdecimal() and value.isascii():
        yield "".join(_DIGITS[int(digit)] for digit in value)
        yield f"{int(value):x}"


def stands_disguised(text: str, value: str, *, inside: bool = False) -> bool:
    """Whether `text` holds `value` spelled out, backwards, shifted by thirteen, or in base64, hex or code points.

    Args:
        text: what an agent reads.
        value: of at least `MIN_LENGTH` characters, six if all are letters; shorter ones are never found.
        inside: whether it also counts as it is, inside a longer word.
    """
    plain = _compact(value)
    if len(plain) < (_MIN_WORD if plain.isalpha() else MIN_LENGTH) or len(set(plain)) < 2:
        return False
    if re.search(r"(?<!\w)" + r"[\W_]+".join(map(re.escape, plain)) + r"(?!\w)", text, re.IGNORECASE):
        return True
    # Within one word only: a value of two words must not be put together out of a list that names them side by side.
    if inside and any(plain in _compact(word) for word in text.split()):
        return True
    compact = _compact(text)
    return any(len(form) >= MIN_LENGTH and form in compact for form in disguises(value) if form != plain)


def _compact(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()
