"""A value in another form: what a text may give away without holding it as a whole token."""

from __future__ import annotations

import base64
import operator
import re
from collections.abc import Callable, Iterator

__all__ = ["MIN_LENGTH", "computed", "disguises", "spelled", "stands_disguised"]

MIN_LENGTH = 4
"""Characters of the shortest value that is looked for; chance makes shorter ones out of anything."""

_MIN_WORD = 6
"""The same for a value of letters alone: many a short word is another one backwards."""

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_SMALL = (*_DIGITS, *_TEENS)
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SUM = re.compile(r"(?<![\w.])(\d{1,9})\s*([-+*x×−]|plus|minus|times|less)\s*(\d{1,9})(?![\w]|\.\d)")
_APPLIED: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("+", "plus"), operator.add),
    **dict.fromkeys(("-", "−", "minus", "less"), operator.sub),
    **dict.fromkeys(("*", "x", "×", "times"), operator.mul),
}
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")


def disguises(value: str) -> Iterator[str]:
    """Other forms of a value, letters and digits only, lower case.

    >>> sorted(disguises("1203"))[:3]
    ['1203', '3021', '31323033']
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
    """Whether `text` holds `value` spelled out, in words, backwards, shifted by 13, or in base64, hex or code points.

    Args:
        text: what an agent reads.
        value: of at least `MIN_LENGTH` characters, six if all are letters; shorter ones are never found.
        inside: whether it also counts as it is, inside a longer word.
    """
    if _in_words(text, value) or _grouped(text, value):
        return True
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


def computed(text: str) -> set[str]:
    """Results of the sums, differences and products of two numbers that stand in `text`.

    >>> sorted(computed("Take 40 + 2, or 6 times 9."))
    ['42', '54']
    """
    return {str(_APPLIED[sign](int(one), int(other))) for one, sign, other in _SUM.findall(text.lower())}


def spelled(number: int) -> str:
    """A number from 0 to 999,999 in English words, without hyphens or `and`.

    >>> spelled(4711)
    'four thousand seven hundred eleven'
    """
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = f" {spelled(number % size)}" if number % size else ""
            return f"{spelled(number // size)} {name}{rest}"
    if number < len(_SMALL):
        return _SMALL[number]
    return _TENS[number // 10] + (f" {_SMALL[number % 10]}" if number % 10 else "")


def _in_words(text: str, value: str) -> bool:
    """A number of two to six digits as words; smaller ones stand in any text."""
    if not re.fullmatch(r"[1-9][0-9]{1,5}", value):
        return False
    words = spelled(int(value)).split()
    return re.search(rf"(?<![\w-]){r'(?:[ -]|,? and )'.join(words)}(?!\w|-\w)", text, re.IGNORECASE) is not None


def _grouped(text: str, value: str) -> bool:
    """A number of four digits or more with a comma or a blank before each three of them."""
    if not re.fullmatch(r"[1-9][0-9]{3,}", value):
        return False
    groups = f"{int(value):,}".replace(",", "[, ]")
    return re.search(rf"(?<![\w.,]){groups}(?!\w|[.,]\d)", text) is not None


def _compact(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()
