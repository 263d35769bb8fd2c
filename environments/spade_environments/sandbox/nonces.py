"""Nonces: what a child cannot know before it has read the request, drawn from the kernel many at a time."""

from __future__ import annotations

import os

__all__ = ["Nonces"]

_BYTES = 8
_DRAWN = 512


class Nonces:
    """Hexadecimal words of 64 random bits, each given out once."""

    def __init__(self) -> None:
        self._left: list[str] = []

    def next(self) -> str:
        """A fresh one; safe to call from several threads."""
        try:
            return self._left.pop()
        except IndexError:
            drawn = os.urandom(_BYTES * _DRAWN).hex()
            fresh = [drawn[start : start + 2 * _BYTES] for start in range(0, len(drawn), 2 * _BYTES)]
            nonce = fresh.pop()
            self._left = fresh
            return nonce
