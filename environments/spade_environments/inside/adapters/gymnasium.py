"""What a text environment written for Gymnasium derives from and imports, where Gymnasium itself cannot be had."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Generic, TypeVar

from ..contract import ContractError
from . import spaces

__all__ = ["ActType", "Env", "ObsType", "Space", "register", "seeding", "spaces", "utils"]

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")
Space = spaces.Space


class Env(Generic[ObsType, ActType]):
    """The base: `reset` seeds `np_random`, the rest is the environment's own."""

    metadata: dict[str, Any] = {}  # noqa: RUF012 (as an environment that changes it expects)
    render_mode: str | None = None
    spec: Any = None
    action_space: Any = None
    observation_space: Any = None
    _np_random: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None and "numpy" in sys.modules:
            self._np_random = generator(seed)

    def step(self, action: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no step(action)")

    @property
    def np_random(self) -> Any:
        if self._np_random is None:
            self._np_random = generator(None)
        return self._np_random

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self._np_random = value

    @property
    def unwrapped(self) -> Any:
        return self

    def render(self) -> Any:
        return None

    def close(self) -> None:
        return None


def generator(seed: int | None) -> Any:
    """A numpy generator, as Gymnasium seeds it; without a seed, of the episode's own entropy.

    Raises:
        ContractError: the source does not import numpy.
    """
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        raise ContractError("np_random is one of numpy's generators, and numpy is not here: import numpy")
    return numpy.random.default_rng(numpy.random.randint(2**31) if seed is None else seed)


def register(*_: Any, **__: Any) -> None:
    """An environment is found by its class here."""


def _np_random(seed: int | None = None) -> tuple[Any, int]:
    return generator(seed), seed or 0


seeding = ModuleType("seeding", "Gymnasium's seeding.")
seeding.np_random = _np_random  # type: ignore[attr-defined]
utils = ModuleType("utils", "Gymnasium's utils.")
utils.seeding = seeding  # type: ignore[attr-defined]
