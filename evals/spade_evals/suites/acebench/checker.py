"""ACEBench's rules for normal and special answers, with the leniency that makes its numbers comparable.

Among them: a gold argument that the schema does not require may be left out; a gold value whose type is not that of the
schema is trusted by its type alone; whole numbers and truth values are compared by type alone; strings are compared as
parts of one another once spaces and punctuation are taken out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spade_evals.suites.acebench.parser import ProseCall

__all__ = ["check_calls", "check_special"]

_TYPES: dict[str, type] = {
    "string": str, "any": str, "integer": int, "int": int, "number": int, "float": float, "boolean": bool,
    "array": list, "tuple": list, "list": list, "objectArray": list, "list(string)": list, "list(enum)": list,
    "dict": dict, "object": dict, "enum": enumerate,
}  # fmt: skip
_NESTED = frozenset({"array", "tuple", "list(string)", "list(enum)", "object", "objectArray"})
_NOISE = re.compile(r"[ ,./\-_*^]")
_REPEATED = re.compile(r"_\d+$")

Gold = Mapping[str, Any]


class _Typed(NamedTuple):
    """Whether a value's type fits, and whether its value is trusted then."""

    fits: bool
    trusted: bool = False


def check_calls(functions: Sequence[Mapping[str, Any]], calls: Sequence[ProseCall], gold: Any) -> str:
    """Why the calls are not those of any gold answer; empty where they are.

    Args:
        functions: the schemas offered.
        calls: as parsed.
        gold: one answer, or a list of answers of which any will do: arguments by name, repeated names as `name_1`.
    """
    answers = gold if isinstance(gold, list) else [gold]
    faults = [_against(functions, calls, answer) for answer in answers]
    return "" if not all(faults) else (faults[0] if faults else "no gold answer")


def check_special(response: str, gold: Any, category: str) -> str:
    """Why a response does not point out what is wrong with the request; empty where it does."""
    items = list(gold.items()) if isinstance(gold, Mapping) else [("", [gold])]
    if "irrelevant" in category:
        return "" if "the limitations of the function" in response else "does not say that no function fits"
    opening = "Missing necessary parameters" if "incomplete" in category else "There is incorrect value"
    for name, values in items:
        if opening not in response:
            return f"does not say {opening!r}"
        if "incomplete" in category and str(name) not in response:
            return f"does not name {name}"
        if any(str(value) not in response for value in values):
            return f"does not name all of {list(values)}"
    return ""


def _against(functions: Sequence[Mapping[str, Any]], calls: Sequence[ProseCall], gold: Gold) -> str:
    if len(calls) != len(gold):
        return f"{len(calls)} calls; wanted {len(gold)}"
    wanted = [(key, _REPEATED.sub("", key), arguments) for key, arguments in gold.items()]
    if Counter(call.name for call in calls) != Counter(name for _, name, _ in wanted):
        return "other functions"
    for key, name, arguments in wanted:
        schema = next((function for function in functions if function["name"] in key), None)
        same = [call for call in calls if call.name == name]
        faults = [_call_fault(schema, call, arguments) for call in same]
        if all(faults):
            return faults[-1]
    return ""


def _call_fault(schema: Mapping[str, Any] | None, call: ProseCall, gold: Gold) -> str:
    if schema is None:
        return f"no schema of {call.name}"
    parameters = schema["parameters"]
    if not call.arguments and not parameters:
        return ""
    if not call.arguments or not parameters:
        return "no arguments where some are wanted, or some where none are"
    properties = parameters["properties"]
    if gold == properties:
        return ""
    if not gold or schema["name"] != call.name:
        return "other arguments"
    absent = [name for name in parameters["required"] if name not in call.arguments]
    if absent:
        return f"lacks {absent[0]}"
    for name, value in call.arguments.items():
        if name not in properties or name not in gold:
            return f"unasked argument {name}"
        if not _argument_fits(properties[name], value, gold[name]):
            return f"wrong {name}"
    return ""


def _argument_fits(schema: Mapping[str, Any], value: Any, gold: Any) -> bool:
    declared = schema["type"]
    expected = _TYPES[declared]
    nested = _TYPES[_inner(schema)] if declared in _NESTED else None
    if declared == "tuple" and isinstance(value, tuple):
        value = list(value)
    if declared == "float" and type(value) is int:
        value = float(value)
    typed = _typed(value, gold, expected, nested)
    if not typed.fits or typed.trusted:
        return typed.fits
    if expected is dict:
        return _same_dict(value, gold)
    if expected is list and nested is dict:
        return len(value) == len(gold) and all(_same_dict(a, b) for a, b in zip(value, gold, strict=True))
    if expected is str:
        return _plain(gold) in _plain(value)
    if expected is list:
        return [_plain_item(item) for item in value] == [_plain_item(item) for item in gold]
    return True


def _typed(value: Any, gold: Any, expected: type, nested: type | None) -> _Typed:
    gold_type: type | None = type(gold) if gold != "" else None
    differs = gold_type is not None and gold_type is not expected
    items: Any
    value = items = _truth(value)
    inner_fails = False
    if type(value) is expected:
        if nested is None:
            return _Typed(True, differs)
        for item in gold:
            if type(item) is not list or all(_typed(part, item, nested, None).fits for part in items):
                return _Typed(True, differs)
        inner_fails = True
    if gold_type is not None and (type(value) is gold_type or gold == value):
        return _Typed(not inner_fails, True)
    return _Typed(False)


def _inner(schema: Mapping[str, Any]) -> str:
    """The type of a container's items."""
    items = schema.get("items")
    if isinstance(items, Mapping) and "type" in items:
        return str(items["type"])
    declared = schema["type"]
    return "string" if "string" in declared else "enum" if "enum" in declared else "dict"


def _same_dict(value: Any, gold: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict) or len(value) != len(gold):
        return False
    for key, found in value.items():
        if key not in gold:
            return False
        wanted, found = gold[key], _truth(found)
        if isinstance(wanted, Mapping):
            if not _same_dict(found, wanted):
                return False
        elif str(_plain_item(wanted)) not in str(_plain_item(found)):
            return False
    return True


def _truth(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _plain(text: str) -> str:
    return _NOISE.sub("", text).lower().replace("'", '"')


def _plain_item(item: Any) -> Any:
    return _plain(item) if isinstance(item, str) else item
