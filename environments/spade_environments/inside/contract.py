"""The contract that a designed environment is written against; in the child this module *is* `spade_environments`."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

__all__ = ["Call", "ContractError", "Goal", "TextEnv", "ToolEnv", "ToolError", "tool"]

GOAL_KINDS = ("state", "called", "replied", "asked", "declined")
RESERVED_TOOL_NAMES = ("reset", "get_task", "finish_turn", "hint")
TOOL_NAME_LIMIT = 64
DESCRIPTION_LIMIT = 2000
MAX_TURNS_LIMIT = 25
REPLY_LIMIT = 300
NUMBERS_LIMIT = 25
_UNCHANGING = frozenset((str, int, float, bool, type(None)))
# Whole or nothing: what stands in a longer number, a version or a quantity with its unit is no number of its own.
_NUMBER = re.compile(r"(?<![\w.])-?(?>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?!\w|\.\d)")

Check = Callable[[Any, "list[Call]", str], bool]
GymStep = tuple[str, float, bool, bool, dict[str, Any]]


class ToolError(Exception):
    """A mistake that the agent may read and mend; the tool's result becomes this text."""


class ContractError(Exception):
    """The environment breaks the contract; told to its designer, never to an agent."""


class Call:
    """One tool call as designed code writes and sees it.

    Attributes:
        name: the tool's name.
        arguments: validated arguments, defaults filled in.
        result: what the tool returned (JSON-able), `None` before the call is made.
        ok: whether the tool returned rather than raised `ToolError`.
    """

    __slots__ = ("arguments", "name", "ok", "result")

    def __init__(self, name: str, /, **arguments: Any) -> None:
        self.name = name
        self.arguments: dict[str, Any] = arguments
        self.result: Any = None
        self.ok = False

    def __repr__(self) -> str:
        arguments = "".join(f", {key}={value!r}" for key, value in self.arguments.items())
        return f"Call({self.name!r}{arguments})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and (self.name, self.arguments) == (other.name, other.arguments)

    __hash__ = None  # type: ignore[assignment]


class Goal:
    """One instruction and the test that decides whether it was carried out.

    Args:
        kind: `state` (the state changed and passes the check), `called` (the right reads were made), `replied` (the
            reply carries `value` or passes the check), `asked` (a value was missing: any reply that leaves the state
            alone) or `declined` (no tool fits: likewise).
        instruction: what the user says.
        check: `check(state, calls, reply) -> bool`, over the calls made since the instruction.
        value: for `replied`, the value that must stand in the reply as a whole token; numbers are compared as numbers.
        unlocks: tools that become available with the *next* instruction, once this goal is met.

    Raises:
        ContractError: unknown kind, or a check or value that the kind needs and does not get.
    """

    __slots__ = ("check", "instruction", "kind", "unlocks", "value")

    def __init__(
        self,
        kind: str,
        instruction: str,
        check: Check | None = None,
        *,
        value: str | int | float | None = None,
        unlocks: Sequence[str] = (),
    ) -> None:
        if kind not in GOAL_KINDS:
            raise ContractError(f"goal kind {kind!r} is unknown; use one of {', '.join(GOAL_KINDS)}")
        if not isinstance(instruction, str) or not instruction.strip():
            raise ContractError("a goal needs a non-empty instruction")
        if kind in ("state", "called") and check is None:
            raise ContractError(f"a goal of kind {kind!r} needs check=lambda state, calls, reply: ...")
        if kind == "replied" and check is None and value is None:
            raise ContractError("a goal of kind 'replied' needs a value or a check")
        if isinstance(value, str) and not value.strip():
            raise ContractError("the value of a goal is empty: every reply would carry it")
        if value is not None and kind != "replied":
            raise ContractError(f"only a goal of kind 'replied' takes a value, not {kind!r}")
        self.kind = kind
        self.instruction = instruction
        self.check = check
        self.value = value
        self.unlocks = (unlocks,) if isinstance(unlocks, str) else tuple(unlocks)

    def met(self, state: Any, before: Any, calls: list[Call], reply: str) -> bool:
        """Whether the goal is met by `calls` and `reply`, given the state now and at the instruction."""
        changed = state != before
        if self.kind in ("asked", "declined"):
            return not changed
        if self.kind == "state" and not changed:
            return False
        if self.kind == "replied" and self.value is not None and not carries(reply, self.value):
            return False
        return self.check is None or bool(self.check(state, calls, reply))


_met = Goal.met  # bound early: what a designed class makes of the method later decides nothing


def carries(reply: str, value: str | int | float) -> bool:
    """Whether `reply` (at most 300 characters) holds `value` as a whole token; numbers are compared as numbers.

    A number does not count among more than 25 of them.

    >>> carries("It is 1,204.50 in all.", 1204.5), carries("order A1234", "A123")
    (True, False)
    """
    if len(reply) > REPLY_LIMIT:
        return False
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = str(value).strip()
        before = r"(?<!\w)(?<!\d\.)" if text[:1].isdigit() else r"(?<!\w)"
        after = r"(?!\w|\.\d)" if text[-1:].isdigit() else r"(?!\w)"
        return re.search(before + re.escape(text) + after, reply, re.IGNORECASE) is not None
    wanted = Decimal(str(value))
    told = _NUMBER.findall(reply.replace("\N{MINUS SIGN}", "-"))
    # Who lists every number there is has told none.
    return len(told) <= NUMBERS_LIMIT and any(_number(token) == wanted for token in told)


def _number(token: str) -> Decimal | None:
    try:
        return Decimal(token.replace(",", ""))
    except InvalidOperation:
        return None


def tool(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `ToolEnv` method as a tool; its signature becomes the JSON Schema, its docstring the description."""
    method.__spade_tool__ = True  # type: ignore[attr-defined]
    return method


class TextEnv:
    """Base of environments that read and write text, through one tool with one string argument.

    A designer writes `reset(seed) -> (observation, info)` and
    `step(action) -> (observation, reward, terminated, truncated, info)`, and `solution() -> list[str]`.
    """

    max_turns: ClassVar[int] = 20
    hidden: ClassVar[tuple[str, ...]] = ()
    observability: ClassVar[str] = "full"
    tool_name: ClassVar[str] = "act"
    rng: random.Random

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.max_turns == 1 and not any("tool_name" in vars(base) for base in cls.__mro__ if base is not TextEnv):
            cls.tool_name = "answer"

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        raise ContractError(f"{type(self).__name__} must define reset(self, seed) -> (observation, info)")

    def step(self, action: str) -> GymStep:
        raise ContractError(f"{type(self).__name__} must define step(self, action)")

    def solution(self) -> list[str]:
        raise ContractError(f"{type(self).__name__} must define solution(self) -> list of actions")


class ToolEnv:
    """Base of environments with tools and a user who gives one instruction after another.

    A designer writes `setup()` (builds `self.state` from `self.rng`), `@tool` methods, `goals()` and `solution()`.
    """

    max_turns: ClassVar[int] = 20
    hidden: ClassVar[tuple[str, ...]] = ()
    observability: ClassVar[str] = "partial"
    rng: random.Random
    state: Any

    def setup(self) -> None:
        raise ContractError(f"{type(self).__name__} must define setup(self), which builds self.state from self.rng")

    def goals(self) -> list[Goal]:
        raise ContractError(f"{type(self).__name__} must define goals(self) -> list of Goal")

    def solution(self) -> list[list[Call | str]]:
        raise ContractError(f"{type(self).__name__} must define solution(self) -> one list of calls for each goal")

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        """Build the instance and return the first instruction."""
        self.setup()
        if not hasattr(self, "state"):
            raise ContractError("setup() must set self.state")
        self._goals = _checked_goals(self.goals(), tool_names(type(self)))
        self._locked = {name for goal in self._goals for name in goal.unlocks}
        self._unlocked_now: tuple[str, ...] = ()
        self._position = 0
        self._begin_goal()
        return self._goals[0].instruction, {"goal": 0, "goals": len(self._goals), "kind": self._goals[0].kind}

    def available_tools(self) -> tuple[str, ...]:
        """Names of the tools that are not locked, in order of definition."""
        return tuple(name for name in tool_names(type(self)) if name not in self._locked)

    def step(self, action: Call | str) -> GymStep:
        """Run one tool call, or check the current goal when the agent hands the turn back with a reply."""
        self._unlocked_now = ()
        if isinstance(action, Call):
            return self._run(action), 0.0, False, False, {"goal": self._position, "ok": action.ok}
        goal = self._goals[self._position]
        info = {"goal": self._position, "kind": goal.kind}
        if not _met(goal, self.state, self._before, self._calls, action):
            return "The request was not carried out.", 0.0, True, False, {**info, "met": False}
        self._position += 1
        if self._position == len(self._goals):
            return "Everything is done. Thank you.", 1.0, True, False, {**info, "met": True}
        self._unlocked_now = tuple(name for name in goal.unlocks if name in self._locked)
        self._locked -= set(self._unlocked_now)
        self._begin_goal()
        return self._goals[self._position].instruction, 0.0, False, False, {**info, "met": True}

    def _begin_goal(self) -> None:
        self._calls: list[Call] = []
        self._before = copy.deepcopy(self.state)

    def _run(self, call: Call) -> str:
        self._calls.append(call)
        try:
            # Copied, so that a method that keeps or changes a list changes neither the call nor its own default.
            # From the class: an attribute of the instance that bears the tool's name does not hide it.
            result = getattr(type(self), call.name)(self, **_copied(call.arguments))
        except ToolError as error:
            call.result = str(error)
            return f"Error: {error}"
        call.ok = True
        text = str.__str__(result) if isinstance(result, str) else _to_json(call.name, result)
        call.result = text if isinstance(result, str) else json.loads(text)
        return text


def _copied(arguments: dict[str, Any]) -> dict[str, Any]:
    """What `copy.deepcopy` gives, whose machinery takes longer than the rest of a step."""
    return {name: value if type(value) in _UNCHANGING else copy.deepcopy(value) for name, value in arguments.items()}


def tool_names(cls: type) -> tuple[str, ...]:
    """Names of the `@tool` methods of a class, bases first, in order of definition."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if getattr(value, "__spade_tool__", False):
                names[name] = None
    return tuple(names)


def _to_json(name: str, result: Any) -> str:
    try:
        return json.dumps(result, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractError(f"tool {name} returned {type(result).__name__}, which is not JSON-able: {error}") from error


def _checked_goals(goals: Any, tools: tuple[str, ...]) -> list[Goal]:
    if not isinstance(goals, list) or not goals or not all(isinstance(goal, Goal) for goal in goals):
        raise ContractError("goals() must return a non-empty list of Goal")
    kinds = [goal.kind for goal in goals]
    if kinds[-1] == "asked":
        raise ContractError("the last goal cannot be of kind 'asked': the next instruction supplies what was missing")
    if not set(kinds) & {"state", "called", "replied"}:
        raise ContractError("at least one goal must be of kind state, called or replied")
    unknown = sorted({name for goal in goals for name in goal.unlocks} - set(tools))
    if unknown:
        raise ContractError(f"a goal unlocks {unknown[0]!r}, which is not a tool of this environment")
    if goals[-1].unlocks:
        raise ContractError("the last goal unlocks tools that no later instruction can use")
    return goals
