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
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(argument, where) for argument in arguments]}
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


def _typed(annotation: Any, value: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return annotation(value)
    if get_origin(annotation) in (Union, types.UnionType) and value is not None:
        enums = [a for a in get_args(annotation) if isinstance(a, type) and issubclass(a, enum.Enum)]
        return enums[0](value) if enums else value
    if annotation is float and isinstance(value, int):
        return float(value)
    return value


def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(method)
    except Exception as error:
        raise contract.ContractError(f"tool {method.__name__}: its types cannot be read ({error})") from error
