"""The base that the public release's tool environments derive from, as far as its subclasses rely on it."""

from __future__ import annotations

from typing import Any

__all__ = ["ToolUseBaseEnv"]

_TOLERANCE = 0.01


class ToolUseBaseEnv:
    """What `reset`, `tool_*`, `solution` and `_check_answer` of a subclass may count on.

    The protocol of its `step` is left out: calls are structured here, and the adapter keeps the turns.
    """

    def __init__(self, max_turns: int = 10, **_: Any) -> None:
        self.max_turns = max_turns
        self.turn_count = 0
        self._tools: dict[str, Any] = {}
        self._state: dict[str, Any] = {}
        self._call_history: list[dict[str, Any]] = []
        self._expected_answer: Any = None
        self.reset()

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        raise TypeError(f"{type(self).__name__} has no reset()")

    def get_tools(self) -> list[dict[str, Any]]:
        """The tools in the form of function calling."""
        return [{"type": "function", "function": {"name": name, **tool}} for name, tool in self._tools.items()]

    def _obs_suffix(self) -> str:
        return ""

    def _check_answer(self, answer: str) -> bool:
        """Whether an answer is the expected one: the same words in any case, or the same number within 0.01."""
        given, wanted = str(answer).strip().lower(), str(self._expected_answer).strip().lower()
        if given == wanted:
            return True
        try:
            return abs(_number(given) - _number(wanted)) < _TOLERANCE
        except ValueError:
            return False

    def close(self) -> None:
        return None


def _number(text: str) -> float:
    return float(text.replace("$", "").replace(",", ""))
