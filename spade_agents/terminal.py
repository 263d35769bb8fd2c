"""Text for a terminal: what environments, agents, files and folders are called or say must not steer it."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["visible", "visible_line"]

_JOINERS = "\u200c\u200d"
"""Formatting characters that plain text of many scripts, and emoji, are made with."""
_SUSPECT = re.compile(r"[^ -~]")
"""Most text is plain ASCII, and passes without a look at its letters."""
_STEERING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def visible(text: str) -> str:
    r"""`text` with every control character written out; lines and tabs stay.

    Terminal escapes, bidirectional controls, line separators and half surrogates become `\uXXXX`, the form that TOML
    and JSON read back to the same character.

    >>> visible("a\x1b[2J\tb\u202ec")
    'a\\u001b[2J\tb\\u202ec'
    """
    return _written_out(text, keep="\n\t" + _JOINERS)


def visible_line(text: str) -> str:
    r"""As `visible`, on one line: for a name or a remark that must not pass for a line of its own.

    >>> visible_line("done\nspade: certified")
    'done\\u000aspade: certified'
    """
    return _written_out(text, keep=_JOINERS)


def _written_out(text: str, *, keep: str) -> str:
    def shown(found: re.Match[str]) -> str:
        letter = found[0]
        if letter in keep or unicodedata.category(letter) not in _STEERING:
            return letter
        return f"\\u{ord(letter):04x}" if ord(letter) <= 0xFFFF else f"\\U{ord(letter):08x}"

    return _SUSPECT.sub(shown, text)
