r"""Adapter for classes with `reset` and `step` on text, `\boxed{}` actions among them, as a TextEnv."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ..contract import ContractError, GymStep, TextEnv
from . import spaces
from .foreign import begun, built, step_of

__all__ = ["text_env"]

_BOX = "\\boxed{"
_NUMBER = re.compile(r"\s*[-+]?\d{1,9}\s*")


def text_env(cls: type, *, boxed: bool = False, max_turns: int = 20) -> type[TextEnv]:
    r"""`cls` as a TextEnv.

    Args:
        cls: made without arguments; `reset(seed)` and `step(action)` as in Gymnasium; `solution()`, where it has one,
            gives the winning action or actions.
        boxed: whether it reads its actions from `\boxed{}`; an action without one is put into one.
        max_turns: turns of an episode.
    """
    attributes = {
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "max_turns": max_turns,
        "foreign": cls,
        "boxed": boxed,
    }
    return type(cls.__name__, (_Text,), attributes)


class _Text(TextEnv):
    """A foreign environment behind the contract."""

    foreign: ClassVar[Any] = None
    boxed: ClassVar[bool] = False

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        self.inner = built(self.foreign, self.max_turns)
        first = begun(self.inner, seed)
        space = getattr(self.inner, "action_space", None)
        if isinstance(space, spaces.Space) and not isinstance(space, spaces.Text | spaces.Discrete):
            raise ContractError(f"its actions are {type(space).__name__}, which text cannot write")
        return first, {}

    def step(self, action: str) -> GymStep:
        space = getattr(self.inner, "action_space", None)
        if not isinstance(space, spaces.Discrete):
            return step_of(self.inner.step(self._spoken(action)))
        number = int(action) if _NUMBER.fullmatch(action) else None
        if number is None or not space.contains(number):
            told = f"Error: an action is a whole number from {space.start} to {space.start + space.n - 1}."
            return told, 0.0, False, False, {}
        return step_of(self.inner.step(number))

    def solution(self) -> list[str]:
        if not callable(getattr(self.inner, "solution", None)):
            raise ContractError("it has no solution()")
        found = self.inner.solution()
        actions = found if isinstance(found, list | tuple) else _boxes(found) if isinstance(found, str) else [found]
        return [action if isinstance(action, str) else str(action) for action in actions]

    def _spoken(self, action: str) -> str:
        return action if not self.boxed or _BOX in action else f"{_BOX}{action}}}"


def _boxes(text: str) -> list[str]:
    """Every whole box in a text, or the text itself where there is none."""
    found, start = [], text.find(_BOX)
    while start >= 0:
        depth, end = 1, start + len(_BOX)
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found.append(text[start:end])
        start = text.find(_BOX, end)
    return found or [text]
