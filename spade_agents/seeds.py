"""Seeds: one root, a stream for every purpose, the same on every machine."""

from __future__ import annotations

import hashlib

__all__ = ["derive_seed"]


def derive_seed(*path: int | str) -> int:
    """A 48-bit seed for a path of names and numbers, such as `derive_seed(root, "play", rollout, slot)`."""
    return int.from_bytes(hashlib.sha256(repr(path).encode()).digest()[:6], "big")
