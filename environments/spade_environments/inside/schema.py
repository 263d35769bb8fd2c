"""Typed tool methods to JSON Schema, and JSON arguments back to typed values."""

from __future__ import annotations

import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin

from . import contract

JsonSchema = dict[str, Any]

_PLAIN: dict[Any, JsonSchema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
}


def tool_schema(method: Callable[..., Any]) -> JsonSchema:
    """The JSON Schema (root `type: object`) of a tool's parameters.

    Raises:
        ContractError: a parameter without a type, of an unsupported type, or `*args`/`**kwargs`.
    """
    name = method.__name__
    hints = _hints(method)
    properties: dict[str, JsonSchema] = {}
    required: list[str] = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise contract.ContractError(f"tool {name}: parameter {parameter.name} must be a plain named parameter")
        if parameter.name not in hints:
            raise contract.ContractError(f"tool {name}: parameter {parameter.name} needs a type, such as str or int")
        properties[parameter.name] = type_schema(hints[parameter.name], f"tool {name}: parameter {parameter.name}")
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def type_schema(annotation: Any, where: str) -> JsonSchema:
    """The JSON Schema of one annotation; `where` opens the error message."""
    if annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    origin, arguments = get_origin(annotation), get_args(annotation)
    choices = _choices(annotation)
    if choices is not None:
        return {"enum": _checked_choices(choices, where)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(argument, where) for argument in arguments]}
    if origin in (list, dict) and not arguments:
        return dict(_PLAIN[origin])
    if origin is list:
        return {"type": "array", "items": type_schema(arguments[0], where)}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": type_schema(arguments[1], where)}
    raise contract.ContractError(
        f"{where} has type {annotation!r}; use str, int, float, bool, Literal, Enum, list, dict or Optional of those"
    )


def bind_arguments(method: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Validated JSON arguments as the method wants them: Enum members built, defaults filled in."""
    bound: dict[str, Any] = {}
    for name, annotation, default in _parameters(method):
        if name in arguments:
            bound[name] = _typed(annotation, arguments[name])
        elif default is not inspect.Parameter.empty:
            bound[name] = default
    return bound


@functools.lru_cache(maxsize=256)
def _parameters(method: Callable[..., Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Name, annotation and default of each parameter but self: read once, for a call comes with every step."""
    hints = _hints(method)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return tuple((parameter.name, hints[parameter.name], parameter.default) for parameter in parameters)


def forget_methods() -> None:
    """Let go of every method whose parameters were read."""
    _parameters.cache_clear()


def _choices(annotation: Any) -> list[tuple[Any, Any]] | None:
    """JSON value and typed value of each choice of an Enum or a Literal; `None` of any other type."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [(member.value, member) for member in annotation]
    if get_origin(annotation) is Literal:
        return [(value, value) for value in get_args(annotation)]
    return None


def _checked_choices(choices: list[tuple[Any, Any]], where: str) -> list[Any]:
    values = [value for value, _ in choices]
    odd = [value for value in values if not isinstance(value, str | int | float | None)]
    if odd or not values:
        found = f"the choice {odd[0]!r}" if odd else "no choice"
        raise contract.ContractError(f"{where} has {found}; wanted choices that are str, int, float, bool or None")
    return values


def _is_same(choice: Any, value: Any) -> bool:
    """Equal as JSON values: True and 1 are not."""
    return choice == value and isinstance(choice, bool) == isinstance(value, bool)


def _typed(annotation: Any, value: Any) -> Any:
    """A JSON value that fits the annotation's schema, with Enum members and floats wherever they stand in it."""
    if annotation is str or annotation is int or annotation is bool:  # most are, and each call of a step comes here
        return value
    if annotation is float:
        return float(value)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return next((_typed(option, value) for option in arguments if _fits(option, value)), value)
    if origin is list and arguments:
        return [_typed(arguments[0], item) for item in value]
    if origin is dict and arguments:
        return {key: _typed(arguments[1], item) for key, item in value.items()}
    choices = _choices(annotation)
    if choices is None:
        return value
    return next(typed for choice, typed in choices if _is_same(choice, value))


_JSON_TYPES: dict[Any, Any] = {float: int | float}


def _fits(annotation: Any, value: Any) -> bool:
    """Whether a JSON value fits one option of a union."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    choices = _choices(annotation)
    if choices is not None:
        return any(_is_same(choice, value) for choice, _ in choices)
    if origin in (Union, types.UnionType):
        return any(_fits(option, value) for option in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(option, item) for option in arguments for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(option, item) for option in arguments[1:] for item in value.values()
        )
    if isinstance(value, bool):
        return annotation is bool
    return isinstance(value, _JSON_TYPES.get(annotation, annotation))


def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(method)
    except Exception as error:
        raise contract.ContractError(f"tool {method.__name__}: its types cannot be read ({error})") from error
