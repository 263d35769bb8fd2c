"""The one argument validator, and the cleaning of text: both stand at the host's side of every environment."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from spade_environments.types import ToolCall, ToolSpec

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["ArgumentValidator", "CallError", "CallErrorKind", "clean_text"]

ARGUMENTS_LIMIT = 32_000
"""Characters of a call's arguments, strings and names together; longer ones are refused unread."""
_INTEGER_LIMIT = 2**63
_DEPTH_LIMIT = 32
_SHOWN = 80
_DIRTY = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class CallErrorKind(StrEnum):
    """How a tool call is malformed."""

    UNKNOWN_TOOL = "unknown_tool"
    NOT_AN_OBJECT = "not_an_object"
    DOUBLE_ENCODED = "double_encoded"
    MISSING_ARGUMENT = "missing_argument"
    UNEXPECTED_ARGUMENT = "unexpected_argument"
    WRONG_TYPE = "wrong_type"
    WRONG_VALUE = "wrong_value"
    NOT_FINITE = "not_finite"
    NOT_TEXT = "not_text"
    TOO_LONG = "too_long"


class CallError(NamedTuple):
    """A malformed call: its kind, for counting, and a sentence that its writer can act on."""

    kind: CallErrorKind
    text: str


def clean_text(text: str) -> str:
    r"""`text` without C0 and C1 controls (newline and tab stay) and without bidirectional controls.

    >>> clean_text("a\x00b\u202ec\td")
    'abc\td'
    """
    return text if text.isprintable() else _DIRTY.sub("", text)


class _Plain(NamedTuple):
    """A schema of plain typed arguments, which a step can check in a microsecond; refusals are left to jsonschema."""

    types: dict[str, type]
    required: frozenset[str]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> _Plain | None:
        """The plain form of `schema`, or `None` where it has none."""
        properties = schema.get("properties", {})
        if set(schema) - {"type", "properties", "required", "additionalProperties"} or schema.get("type") != "object":
            return None
        if any(set(part) != {"type"} or part["type"] not in _EXACT for part in properties.values()):
            return None
        types = {name: _EXACT[part["type"]] for name, part in properties.items()}
        return cls(types, frozenset(schema.get("required", ())))

    def accepts(self, arguments: Mapping[str, Any]) -> bool:
        """Whether the arguments are surely right, their size included; False says nothing."""
        types = self.types
        size = 0
        for name, value in arguments.items():
            kind = type(value)
            if kind is not types.get(name) or not _FITS[kind](value):
                return False
            size += len(name) + (len(value) if kind is str else 1)
        return size <= ARGUMENTS_LIMIT and self.required <= arguments.keys()


_EXACT: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}
_FITS: dict[type, Callable[[Any], bool]] = {
    str: str.isascii,  # others may hold half a surrogate pair: looked at more closely
    int: lambda value: -_INTEGER_LIMIT < value < _INTEGER_LIMIT,
    float: math.isfinite,
    bool: lambda value: True,
}


class ArgumentValidator:
    """Checks calls against the tools' JSON Schemas; every transport uses this one.

    An integer is a JSON integer: 1.0 and true are not. Arguments are never coerced.
    """

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._schemas = {tool.name: tool.parameters for tool in tools}
        self._plain = {tool.name: _Plain.of(tool.parameters) for tool in tools}
        self._validators: dict[str, Validator] = {}

    def check(self, call: ToolCall, available: Sequence[str] | None = None) -> CallError | None:
        """What is wrong with `call`, or `None`; tools that are not `available` are unknown."""
        name, arguments = call.name, call.arguments
        names = tuple(self._schemas) if available is None else available
        if name not in names:
            told = f"unknown tool {_shown(name)}; the tools are {', '.join(names)}"
            return CallError(CallErrorKind.UNKNOWN_TOOL, told)
        plain = self._plain[name]
        if plain is not None and type(arguments) is dict and plain.accepts(arguments):
            return None
        found = _check_shape(arguments)
        if found is not None:
            return found
        error = next(self._validator(name).iter_errors(dict(arguments)), None)
        return None if error is None else _told(error)

    def _validator(self, name: str) -> Validator:
        if name not in self._validators:
            self._validators[name] = _strict_validator()(self._schemas[name])
        return self._validators[name]


def check_reply(text: Any) -> CallError | None:
    """What is wrong with a Reply's text, or `None`."""
    if not isinstance(text, str):
        return CallError(CallErrorKind.WRONG_TYPE, "a reply is text")
    return _check_text(text, "the reply")


def _check_shape(arguments: Any) -> CallError | None:
    """What no schema can say: a mapping, of finite size, of JSON values that can travel."""
    if isinstance(arguments, str):
        kind = CallErrorKind.DOUBLE_ENCODED if _is_json_of(arguments, dict) else CallErrorKind.NOT_AN_OBJECT
        return CallError(kind, "the arguments are a string; pass a JSON object, not text that holds one")
    if not isinstance(arguments, Mapping):
        return CallError(CallErrorKind.NOT_AN_OBJECT, f"the arguments are {_kind(arguments)}; pass a JSON object")
    left = [ARGUMENTS_LIMIT]
    for name, value in arguments.items():
        if not isinstance(name, str):
            return CallError(CallErrorKind.WRONG_TYPE, "the call: every argument's name must be a string")
        error = _check_value(name, name, left, 0) or _check_value(value, name, left, 1)
        if error is not None:
            return error
    return None


def _check_value(value: Any, argument: str, left: list[int], depth: int) -> CallError | None:
    """What is wrong with a value inside `argument`; `left` counts down over the whole call."""
    left[0] -= len(value) if isinstance(value, str | dict | list) else 1
    if left[0] < 0 or depth > _DEPTH_LIMIT:
        return CallError(CallErrorKind.TOO_LONG, f"the arguments are too long; at most {ARGUMENTS_LIMIT} characters")
    if isinstance(value, str):
        return _check_text(value, f"argument {_shown(argument)}") if not value.isascii() else None
    if isinstance(value, bool | None):
        return None
    if isinstance(value, int | float):
        return (
            None if _is_plain_number(value) else _wrong(CallErrorKind.NOT_FINITE, argument, "not finite, or too large")
        )
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return _wrong(CallErrorKind.WRONG_TYPE, argument, "an object with a name that is no string")
        parts: list[Any] = [*value, *value.values()]
    elif isinstance(value, list):
        parts = value
    else:
        return _wrong(CallErrorKind.WRONG_TYPE, argument, f"a {type(value).__name__}, which is not a JSON value")
    return next(filter(None, (_check_value(part, argument, left, depth + 1) for part in parts)), None)


def _is_plain_number(value: float) -> bool:
    return math.isfinite(value) if isinstance(value, float) else abs(value) < _INTEGER_LIMIT


def _wrong(kind: CallErrorKind, argument: str, what: str) -> CallError:
    return CallError(kind, f"argument {_shown(argument)} is {what}")


def _check_text(text: str, where: str) -> CallError | None:
    if len(text) > ARGUMENTS_LIMIT:
        told = f"{where}: the text has {len(text)} characters; at most {ARGUMENTS_LIMIT}"
        return CallError(CallErrorKind.TOO_LONG, told)
    if not text.isascii() and _SURROGATE.search(text):
        return CallError(CallErrorKind.NOT_TEXT, f"{where}: the text holds half a surrogate pair")
    return None


def _told(error: ValidationError) -> CallError:
    """The library's finding in our words; the first element of its path is the argument."""
    rule: Any = error.validator_value
    instance: Any = error.instance
    where = f"argument {_shown(error.absolute_path[0])}" if error.absolute_path else "the call"
    if error.validator == "required":
        missing = next(name for name in rule if name not in instance)
        return CallError(CallErrorKind.MISSING_ARGUMENT, f"{where}: {missing!r} is missing")
    if error.validator == "additionalProperties":
        known: Mapping[str, Any] = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
        extra = next((name for name in instance if name not in known), "")
        told = f"{where}: {_shown(extra)} is not an argument; the arguments are {', '.join(known) or 'none'}"
        return CallError(CallErrorKind.UNEXPECTED_ARGUMENT, told)
    if error.validator == "enum":
        values = ", ".join(json.dumps(value) for value in rule)
        return CallError(CallErrorKind.WRONG_VALUE, f"{where} is {_shown(error.instance)}; use one of {values}")
    if error.validator == "anyOf":
        deeper = next((part for part in error.context or () if len(part.path) > 0), None)
        if deeper is not None:  # the right type, with a wrong part in it
            return _told(deeper)
    wanted = _wanted(error)
    if isinstance(error.instance, str) and _is_json_of(error.instance, list | dict) and wanted & {"array", "object"}:
        told = f"{where} is a string that holds JSON; pass the {' or '.join(sorted(wanted))} itself"
        return CallError(CallErrorKind.DOUBLE_ENCODED, told)
    told = f"{where} is {_kind(error.instance)} ({_shown(error.instance)}); wanted {' or '.join(sorted(wanted))}"
    kind = CallErrorKind.WRONG_VALUE if _is_of_a_choices_type(error) else CallErrorKind.WRONG_TYPE
    return CallError(kind, told)


def _is_of_a_choices_type(error: ValidationError) -> bool:
    """Whether an option of a union is a choice among values of the type that was given."""
    enums: list[Any] = [part.validator_value for part in error.context or () if part.validator == "enum"]
    return any(type(choice) is type(error.instance) for enum in enums for choice in enum)


def _wanted(error: ValidationError) -> set[str]:
    """The JSON types that would have done."""
    rule: Any = error.validator_value
    if error.validator == "type":
        return {str(rule)}
    if error.validator == "anyOf":
        return {str(option.get("type") or " or ".join(map(json.dumps, option.get("enum", ())))) for option in rule}
    return {str(error.validator)}


def _strict_validator() -> type[Validator]:
    """JSON Schema 2020-12 whose integers are integers; imported here because jsonschema is slow to import."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    global _validator_class  # noqa: PLW0603 (built once; it depends on nothing)
    if _validator_class is None:
        checker = Draft202012Validator.TYPE_CHECKER.redefine(
            "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
        )
        _validator_class = extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]
    return _validator_class


_validator_class: type[Validator] | None = None


def _is_json_of(text: str, kind: Any) -> bool:
    try:
        return isinstance(json.loads(text), kind)
    except (ValueError, RecursionError):
        return False


def _kind(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", list: "an array",
             dict: "an object", type(None): "null"}  # fmt: skip
    return names.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value) if isinstance(value, int | float | None) else _kind(value)
    text = clean_text(text).encode("utf-8", "replace").decode()
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
