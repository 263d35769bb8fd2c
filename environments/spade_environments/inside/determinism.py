"""Clock, entropy and uuid derived from a seed, at Python level, so that an episode can be played again."""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

__all__ = ["install", "reseed"]

_EPOCH = 1_700_000_000
_TICK_NS = 1_000_000


class _World:
    """The episode's own clock (it advances by a tick a reading, and by what is slept) and its own entropy."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.entropy = random.Random(0)

    def seed(self, seed: int) -> None:
        self.entropy.seed(f"entropy {seed}")
        self.now_ns = (_EPOCH + self.entropy.randrange(86_400 * 365)) * 1_000_000_000

    def read(self) -> int:
        self.now_ns += _TICK_NS
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.now_ns += int(seconds * 1_000_000_000)

    def urandom(self, size: int) -> bytes:
        return self.entropy.randbytes(size)


_world = _World()


def reseed(seed: int) -> None:
    """Start the clock, the entropy and the module-level `random` (and numpy's, if it is here) again from `seed`."""
    _world.seed(seed)
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def install() -> None:
    """Replace the clocks and the entropy of this process; only ever called in an episode's child."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, lambda: _world.read() / 1_000_000_000)
        setattr(time, f"{name}_ns", _world.read)
    time.sleep = _world.sleep  # type: ignore[assignment]
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _at_now(getattr(time, name)))
    real_strftime, real_asctime = time.strftime, time.asctime
    time.strftime = lambda text, at=None: real_strftime(text, time.localtime() if at is None else at)
    time.asctime = lambda at=None: real_asctime(time.localtime() if at is None else at)
    _install_entropy()


def _at_now(convert: Callable[[float], Any]) -> Callable[..., Any]:
    return lambda seconds=None: convert(time.time() if seconds is None else seconds)


def _install_entropy() -> None:
    real_seed = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        real_seed(self, int.from_bytes(_world.urandom(16), "big") if a is None else a, version)

    random.Random.seed = seed  # type: ignore[method-assign]
    random.seed = random._inst.seed
    os.urandom = _world.urandom
    random._urandom = _world.urandom  # type: ignore[attr-defined]
    uuid._generate_time_safe = None  # type: ignore[attr-defined]
    uuid.getnode = lambda: 0x020000000001
    uuid.uuid1 = _seeded_uuid1
    uuid.uuid4 = lambda: uuid.UUID(bytes=_world.urandom(16), version=4)


def _seeded_uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    stamp = _world.read() // 100 + 0x01B21DD213814000
    sequence = _world.entropy.getrandbits(14) if clock_seq is None else clock_seq
    fields = (stamp & 0xFFFFFFFF, stamp >> 32 & 0xFFFF, stamp >> 48 & 0x0FFF, sequence >> 8 & 0x3F, sequence & 0xFF)
    return uuid.UUID(fields=(*fields, uuid.getnode() if node is None else node), version=1)
