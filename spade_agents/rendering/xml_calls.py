"""Calls as Qwen3.5 writes them: a function tag that holds one tag a parameter, values as bare text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from spade_agents.rendering.calls import broken_call
from spade_agents.rendering.tools import to_json
from spade_agents.trajectory import BrokenCall
from spade_environments import ToolCall, ToolSpec

__all__ = ["ScalarForm", "parse_xml_call", "xml_call"]

ScalarForm = Literal["python", "json"]
"""How a number, a truth value or nothing is written: `True` (Qwen3.5) or `true` (Qwen3.6)."""

_FUNCTION: Final = re.compile(r"\s*<function=([^<>\n]+)>\n?(.*)</function>\s*", re.DOTALL)
_PARAMETER: Final = re.compile(r"\s*<parameter=([^<>\n]+)>\n?(.*?)\n?</parameter>(?=\s*(?:<parameter=|\Z))", re.DOTALL)
_PYTHON_WORDS: Final[Mapping[str, bool | None]] = {"True": True, "False": False, "None": None}
_FORM: Final = "a call is <function=NAME> with one <parameter=NAME>VALUE</parameter> an argument, then </function>"


def xml_call(call: ToolCall, scalars: ScalarForm) -> str:
    """A call as it stands between the call tags."""
    parameters = (
        f"<parameter={name}>\n{_value(value, scalars)}\n</parameter>\n" for name, value in call.arguments.items()
    )
    return f"<function={call.name}>\n{''.join(parameters)}</function>"


def parse_xml_call(body: str, tools: Sequence[ToolSpec], *, index: int = 0) -> ToolCall | BrokenCall:
    """One call from the text between its tags, or what is wrong with it; never raises.

    Args:
        body: the text between the call tags.
        tools: tell which parameters are text, to be kept as written; others are read as JSON where they are JSON.
        index: the call's id is `call_<index>`.
    """
    if body.count("<function=") > 1 and body.count("</function>") > 1:
        return broken_call("several_calls", "one <tool_call> holds several functions; give each its own tags", body)
    found = _FUNCTION.fullmatch(body)
    if found is None:
        return broken_call("not_json", _FORM, body)
    name, inside = found[1].strip(), found[2]
    schema = next((tool.parameters for tool in tools if tool.name == name), {})
    arguments: dict[str, Any] = {}
    place = 0
    while parameter := _PARAMETER.match(inside, place):
        key = parameter[1].strip()
        if key in arguments:
            return broken_call("bad_call", f"the call names the parameter {key!a} twice", body)
        arguments[key] = _read(parameter[2], schema.get("properties", {}).get(key))
        place = parameter.end()
    if inside[place:].strip():
        return broken_call("bad_call", _FORM, body)
    return ToolCall(name=name, arguments=arguments, id=f"call_{index}")


def _value(value: Any, scalars: ScalarForm) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | tuple) or scalars == "json":
        return to_json(value)
    return str(value)


def _read(text: str, schema: Any) -> Any:
    """A value of the type that the schema asks for, as far as the text is one."""
    types = _types(schema)
    if types == {"string"}:
        return text
    if text in _PYTHON_WORDS:
        value: Any = _PYTHON_WORDS[text]
    else:
        try:
            value = json.loads(text)
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return text
    # Where text is allowed, only what is of another allowed type is not text.
    return text if isinstance(value, str) or ("string" in types and not _kinds(value) & types) else value


def _kinds(value: Any) -> set[str]:
    """The JSON types that a value is of."""
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number"}
        case list():
            return {"array"}
        case _:
            return {"object"}


def _types(schema: Any) -> set[str]:
    """The JSON types a schema allows; empty where it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    options = [schema, *schema.get("anyOf", ())]
    found: set[str] = set()
    for option in options:
        kind = option.get("type") if isinstance(option, Mapping) else None
        found |= {kind} if isinstance(kind, str) else set(kind or ())
        if isinstance(option, Mapping) and option.get("enum") and kind is None:
            found |= {"string" if all(isinstance(value, str) for value in option["enum"]) else "any"}
    return found
