"""A supervised sample: tokens to imitate, for the warm start and for replay."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SupervisedSample"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedSample:
    """Tokens and which of them to imitate.

    Attributes:
        token_ids: shape (T,).
        mask: True where the token is a target, shape (T,); never at 0, which nothing predicts.
    """

    token_ids: tuple[int, ...]
    mask: tuple[bool, ...]
