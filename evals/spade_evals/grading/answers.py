r"""Finding the answer in a response: the last `\boxed{}`, a letter of a multiple choice, a tagged answer, a program."""

from __future__ import annotations

import re

__all__ = ["boxed", "choice", "code_block", "same_text", "tagged"]

_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textrm)\s*\{([^{}]*)\}")
_LETTER = re.compile(r"^\s*\(?\s*([A-Za-z])\s*[).:]?\s*$")
_STATED = re.compile(r"(?:answer|choice|option)\s*(?:is|:)?\s*:?\s*\**\(?([A-Da-d])\b\)?", re.IGNORECASE)
_BLOCK = re.compile(r"```(?:[A-Za-z0-9_+-]*)\s*\n(.*?)```", re.DOTALL)


def boxed(text: str) -> str | None:
    r"""What stands in the last `\boxed{...}` whose braces close.

    >>> boxed(r"first \boxed{1}, then \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    """
    found = None
    for match in re.finditer(r"\\(?:boxed|fbox)\s*\{", text):
        depth, start = 1, match.end()
        for place in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                found = text[start:place].strip()
                break
    return found


def choice(text: str, letters: str = "ABCD") -> str | None:
    r"""The letter that a response chose, upper case: `\boxed{\text{C}}`, `\boxed{(c)}`, or a last line such as `C.`.

    >>> [choice(said) for said in (r"\boxed{\text{C}}", "so (c)", "Answer: B.", "a cat")]
    ['C', None, 'B', None]
    """
    inner = boxed(text)
    if inner is not None:
        plain = _TEXT.sub(r"\1", inner).replace("$", "")
        return _known(_LETTER.match(plain), letters) or _known(re.match(r"^\s*\(?([A-Za-z])\s*[).:]", plain), letters)
    stated = list(_STATED.finditer(text))
    if stated:
        return _known(stated[-1], letters)
    lines = [line for line in text.splitlines() if line.strip()]
    return _known(_LETTER.match(lines[-1].replace("*", "")), letters) if lines else None


def tagged(text: str, tag: str = "answer") -> str | None:
    """What stands in the last `<answer>...</answer>`."""
    found = re.findall(f"<{tag}>\\s?(.*?)\\s?</{tag}>", text, flags=re.DOTALL)
    return found[-1].strip() if found else None


def code_block(text: str) -> str | None:
    """The last fenced block."""
    found = _BLOCK.findall(text)
    return found[-1] if found else None


def same_text(a: str, b: str) -> bool:
    """Whether two answers are the same but for spaces, dollars and a leading zero of a whole number.

    >>> same_text("$070$", "70")
    True
    """
    return _plain(a) == _plain(b)


def _plain(text: str) -> str:
    plain = re.sub(r"\s+", "", text.replace("$", "")).removesuffix(".")
    return plain.lstrip("0") or "0" if plain.isdecimal() else plain


def _known(match: re.Match[str] | None, letters: str) -> str | None:
    letter = match.group(1).upper() if match else ""
    return letter if letter and letter in letters else None
