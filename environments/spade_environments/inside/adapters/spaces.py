"""Gymnasium's spaces, as far as a text environment declares them."""

from __future__ import annotations

from typing import Any

__all__ = ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Sequence", "Space", "Text", "Tuple"]


class Space:
    """A declaration; whatever it was made with is kept and not judged."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments, self.options = arguments, options

    def contains(self, value: Any) -> bool:
        return True

    def seed(self, seed: int | None = None) -> None:
        return None


class Text(Space):
    """Any string."""

    def contains(self, value: Any) -> bool:
        return isinstance(value, str)


class Discrete(Space):
    """The whole numbers from `start` to `start + n - 1`."""

    def __init__(self, n: int, seed: int | None = None, start: int = 0) -> None:
        super().__init__(n)
        self.n, self.start = int(n), int(start)

    def contains(self, value: Any) -> bool:
        return isinstance(value, int) and self.start <= value < self.start + self.n


class Box(Space):
    """Numbers within bounds."""


class Dict(Space):
    """Named spaces."""


class MultiBinary(Space):
    """Flags."""


class MultiDiscrete(Space):
    """Several whole numbers."""


class Sequence(Space):
    """Any number of values of one space."""


class Tuple(Space):
    """Several spaces in order."""
