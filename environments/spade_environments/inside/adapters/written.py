"""Reading a solution that is written in words: the tool calls and the answer that stand in it, in order."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..contract import Call, ContractError

__all__ = ["written_steps"]

_NAMES = {"true": True, "false": False, "null": None}
_MAX_TRIES = 40


def written_steps(solution: Any, tools: Mapping[str, Sequence[str]]) -> list[Call | str]:
    """Calls, and answers as plain text, in the order in which `solution` tells them.

    Args:
        solution: text, or a list of text, `{"name", "arguments"}` and `(name, arguments)`.
        tools: names of the tools, each with its parameters in order.

    Raises:
        ContractError: something else, or a call whose arguments are not plain values.
    """
    if isinstance(solution, str):
        return list(_from_text(solution, tools))
    if not isinstance(solution, list | tuple):
        raise ContractError(f"solution() gave {type(solution).__name__}; wanted text or a list")
    steps: list[Call | str] = []
    for item in solution:
        if isinstance(item, str):
            steps += _from_text(item, tools)
        elif isinstance(item, dict) and isinstance(item.get("name"), str):
            steps.append(_call(item["name"], item.get("arguments", {}), tools))
        elif isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str):
            steps.append(_call(item[0], item[1], tools))
        else:
            raise ContractError(f"solution() holds {type(item).__name__}; wanted a call or text")
    return steps


def _from_text(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call | str]:
    names = "|".join(sorted(map(re.escape, tools), key=len, reverse=True)) or "(?!)"
    mark = re.compile(
        rf"<tool_call>(?P<json>.*?)</tool_call>|<answer>(?P<tag>.*?)</answer>"
        rf"|\bANSWER\s*:\s*(?P<words>[^\n]+)|(?<![\w.])(?:tool_)?(?P<name>{names})(?P<open>\()",
        re.DOTALL,
    )
    position = 0
    while (found := mark.search(text, position)) is not None:
        position = found.end()
        if found["json"] is not None:
            yield _from_json(found["json"], tools)
        elif found["name"] is not None:
            position = _closing(text, found.start("open"), found["name"])
            yield _parsed(found["name"], text[found.start("open") : position], tools)
        else:
            yield (found["tag"] if found["tag"] is not None else found["words"]).strip()


def _from_json(text: str, tools: Mapping[str, Sequence[str]]) -> Call:
    try:
        found = json.loads(text)
        return _call(found["name"], found.get("arguments", {}), tools)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ContractError(f"solution() holds a call that cannot be read: {text[:80]!r}") from error


def _closing(text: str, start: int, name: str) -> int:
    """Where the call's arguments that begin at `start` end: at the first bracket that makes them whole."""
    end = start
    for _ in range(_MAX_TRIES):
        end = text.find(")", end) + 1
        if not end:
            break
        try:
            ast.parse(f"f{text[start:end]}", mode="eval")
        except SyntaxError:
            continue
        return end
    raise ContractError(f"solution() writes {name}{text[start : start + 60]!r}, which is no call")


def _parsed(name: str, written: str, tools: Mapping[str, Sequence[str]]) -> Call:
    node = ast.parse(f"f{written}", mode="eval").body
    assert isinstance(node, ast.Call)
    try:
        arguments = {keyword.arg or "**": _value(keyword.value) for keyword in node.keywords}
        arguments |= dict(zip(tools[name], map(_value, node.args), strict=False))
    except ValueError as error:
        raise ContractError(
            f"solution() writes {name}{written[:60]}, with arguments that are no plain values"
        ) from error
    return _call(name, arguments, tools)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    return ast.literal_eval(node)


def _call(name: str, arguments: Any, tools: Mapping[str, Sequence[str]]) -> Call:
    known = name.removeprefix("tool_") if name not in tools else name
    if known not in tools or not isinstance(arguments, dict):
        raise ContractError(f"solution() calls {name!r}, which is no tool, or without arguments by name")
    return Call(known, **{str(key): value for key, value in arguments.items()})
