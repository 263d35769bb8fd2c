"""Adapter for the release's tool environments as a ToolEnv: `_tools`, `tool_*` and `_user_messages`."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Optional

from ..contract import Call, ContractError, Goal, ToolEnv, ToolError, tool
from .foreign import begun, built
from .written import written_steps

__all__ = ["tool_env"]

_PLAIN: dict[Any, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "array": list,
}
_OWN = ("setup", "goals", "solution", "state", "rng", "inner", "step", "available_tools", "max_turns")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_UNTOLD = "Call {name}."


def tool_env(cls: type, *, max_turns: int = 20) -> type[ToolEnv]:
    """`cls` as a ToolEnv.

    Each of `_user_messages` becomes a goal, met when its `_message_criteria` holds as the turn is handed back; without
    messages there is one goal, met by a reply that `_check_answer` takes. The next message comes as a user message, and
    no longer inside a tool's result. An exception in a tool is told as its error.

    Raises:
        ContractError: tools that cannot be declared.
    """
    look = built(cls, max_turns)
    if not _declared(look):
        begun(look, 0)
    tools = _declared(look)
    if not tools:
        raise ContractError(f"{cls.__name__} declares no tools in _tools")
    attributes: dict[str, Any] = {
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "max_turns": max_turns,
        "foreign": cls,
        "declared": {name: tuple(_properties(tools[name], name)) for name in tools},
    }
    attributes |= {
        name: _method(name, description, getattr(look, f"tool_{name}", None)) for name, description in tools.items()
    }
    return type(cls.__name__, (_Tools,), attributes)


class _Tools(ToolEnv):
    """A foreign tool environment behind the contract."""

    foreign: ClassVar[Any] = None
    declared: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def setup(self) -> None:
        self._seed, self._drawn = self.rng.getrandbits(32), random.getstate()
        self.inner, self._first = self._begun()
        self.state = getattr(self.inner, "_state", {})
        if set(_declared(self.inner)) != set(self.declared):
            raise ContractError(
                f"the tools change from seed to seed; {', '.join(self.declared)} were declared at first"
            )

    def _begun(self) -> tuple[Any, str]:
        """A fresh instance of the episode's seed, which does not go on by itself."""
        inner = built(self.foreign, self.max_turns)
        first = begun(inner, self._seed)
        inner._advance_if_done = _says_nothing
        return inner, first

    def goals(self) -> list[Goal]:
        messages = self._messages()
        if not messages:
            return [Goal("replied", self._first, self._is_answer)]
        return [Goal("called", text, partial(self._is_done, number)) for number, text in enumerate(messages)]

    def solution(self) -> list[list[Call | str]]:
        written = getattr(self.inner, "solution", None)
        if not callable(written):
            raise ContractError("it has no solution()")
        steps = written_steps(written(), self.declared)
        calls = [step for step in steps if isinstance(step, Call)]
        if self._messages():
            return self._parted(calls)
        answers = [step for step in steps if isinstance(step, str)]
        if not answers:
            raise ContractError("solution() tells no answer that can be found: end it with <answer>...</answer>")
        return [[*calls, answers[-1]]]

    def _messages(self) -> list[str]:
        messages = list(getattr(self.inner, "_user_messages", None) or ())
        criteria = list(getattr(self.inner, "_message_criteria", None) or ())
        if len(messages) != len(criteria):
            raise ContractError(f"{len(messages)} _user_messages and {len(criteria)} _message_criteria; wanted as many")
        return messages

    def _parted(self, calls: list[Call]) -> list[list[Call | str]]:
        """The calls in one list a message, found by carrying them out in an instance of their own."""
        now = random.getstate()
        random.setstate(self._drawn)
        inner, _ = self._begun()
        random.setstate(now)
        parts: list[list[Call | str]] = [[]]
        for call in calls:
            parts[-1].append(call)
            _tool(inner, call.name)(**call.arguments)
            if _holds(inner, len(parts) - 1):
                parts.append([])
                if len(parts) > len(inner._user_messages):
                    return parts[:-1]
        told = f"instruction {len(parts)} of {len(inner._user_messages)} is not carried out"
        raise ContractError(f"solution() cannot be run: after its {len(calls)} calls, {told}")

    def _is_done(self, number: int, state: Any, calls: list[Call], reply: str) -> bool:
        return _holds(self.inner, number)

    def _is_answer(self, state: Any, calls: list[Call], reply: str) -> bool:
        found = _ANSWER.search(reply)
        return bool(self.inner._check_answer((found[1] if found else reply).strip()))


def _says_nothing(*_: Any) -> str:
    return ""


def _holds(inner: Any, number: int) -> bool:
    inner._current_msg = number
    return bool(inner._message_criteria[number](inner._state))


def _declared(look: Any) -> dict[str, dict[str, Any]]:
    """The tools by name: of a dict from names to descriptions, or of a list in the form of function calling."""
    tools = getattr(look, "_tools", None) or {}
    if isinstance(tools, Mapping):
        found = {
            name: value if isinstance(value, dict) else {"description": str(value)} for name, value in tools.items()
        }
    elif isinstance(tools, list | tuple) and all(isinstance(item, dict) for item in tools):
        functions = [item.get("function", item) for item in tools]
        found = {item.get("name", ""): item for item in functions}
    else:
        raise ContractError(f"_tools is {type(tools).__name__}; wanted a dict from names to descriptions")
    odd = [name for name in found if not isinstance(name, str) or not name.isidentifier() or name in _OWN]
    if odd:
        raise ContractError(f"a tool is named {odd[0]!r}; rename it")
    return found


def _properties(described: dict[str, Any], name: str) -> dict[str, Any]:
    parameters = described.get("parameters") or {}
    found = parameters.get("properties", {}) if isinstance(parameters, dict) else None
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        raise ContractError(f"tool {name}: its parameters are no JSON Schema of an object")
    return found


def _tool(inner: Any, name: str) -> Callable[..., Any]:
    found = getattr(inner, f"tool_{name}", None)
    if not callable(found):
        raise ContractError(f"_tools names {name!r}, but there is no method tool_{name}")
    return found  # type: ignore[no-any-return]


def _method(name: str, described: dict[str, Any], written: Any) -> Callable[..., Any]:
    """A tool of the contract whose signature says what the schema of a described tool says."""
    if not callable(written):
        raise ContractError(f"_tools names {name!r}, but there is no method tool_{name}")
    own = dict(inspect.signature(written).parameters)
    properties = _properties(described, name)
    required = (described.get("parameters") or {}).get("required", [])
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    hints: dict[str, Any] = {}
    for parameter, schema in properties.items():
        default = own[parameter].default if parameter in own else inspect.Parameter.empty
        needed = parameter in required
        hint = _annotation(schema, f"tool {name}: parameter {parameter}")
        fallback = None if default is inspect.Parameter.empty else default
        hints[parameter] = hint if needed or fallback is not None else Optional[hint]  # noqa: UP045
        parameters.append(
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if needed else fallback,
                annotation=hints[parameter],
            )
        )

    def call(self: _Tools, **arguments: Any) -> Any:
        return _called(self.inner, name, arguments)

    call.__name__, call.__doc__ = name, _told(name, described, properties)
    call.__annotations__ = hints
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return tool(call)


def _called(inner: Any, name: str, arguments: dict[str, Any]) -> Any:
    method = _tool(inner, name)
    own = inspect.signature(method).parameters
    given = {
        key: value
        for key, value in arguments.items()
        if value is not None or (key in own and own[key].default is not inspect.Parameter.empty)
    }
    try:
        result = method(**given)
    except (ContractError, MemoryError):
        raise
    except Exception as error:
        raise ToolError(f"{type(error).__name__}: {error}") from error
    inner._call_history = [
        *getattr(inner, "_call_history", ()),
        {"name": name, "arguments": given, "result": str(result)},
    ]
    return result if isinstance(result, str | int | float | list | dict | None) else str(result)


def _told(name: str, described: dict[str, Any], properties: dict[str, Any]) -> str:
    """The description, with what the schema says about each parameter."""
    text = str(described.get("description") or _UNTOLD.format(name=name)).strip()
    notes = [f"{key}: {value['description']}" for key, value in properties.items() if value.get("description")]
    return text + (f" ({'; '.join(notes)})" if notes else "")


def _annotation(schema: dict[str, Any], where: str) -> Any:
    """The type that gives this JSON Schema back."""
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    kind = schema.get("type")
    if isinstance(kind, list):
        options = [_annotation({**schema, "type": option}, where) for option in kind if option != "null"]
        joined = options[0]
        for option in options[1:]:
            joined = joined | option
        return Optional[joined] if "null" in kind else joined  # noqa: UP045
    if kind == "array" and isinstance(schema.get("items"), dict) and schema["items"]:
        return list[_annotation(schema["items"], where)]  # type: ignore[misc]
    if kind not in _PLAIN:
        raise ContractError(f"{where} is described as {schema!r}; wanted a type such as 'string' or an enum")
    return _PLAIN[kind]
