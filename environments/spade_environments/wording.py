"""Numbers in sentences: one tool, two tools."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural ends in s.

    >>> counted(1, "tool"), counted(0, "tool"), counted(2, "tool")
    ('1 tool', '0 tools', '2 tools')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
