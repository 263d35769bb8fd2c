"""Calls in prose, `[Name(key='value')]`, read by their syntax tree: nothing that a model writes is ever evaluated."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

__all__ = ["CallError", "ProseCall", "first_brackets", "parse_calls"]

_LONGEST = 50_000


class CallError(ValueError):
    """A response that is no list of calls."""


class ProseCall(NamedTuple):
    """A call as it was written: name, possibly dotted, and arguments by keyword."""

    name: str
    arguments: dict[str, Any]


def parse_calls(text: str) -> tuple[ProseCall, ...]:
    """The calls of a bracketed list.

    Raises:
        CallError: anything else.
    """
    if len(text) > _LONGEST:
        raise CallError(f"the response has {len(text)} characters; at most {_LONGEST} are parsed")
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CallError(f"no syntax: {error}") from error
    if not isinstance(body, ast.List | ast.Tuple):
        raise CallError("no list of calls")
    if not all(isinstance(element, ast.Call) for element in body.elts):
        raise CallError("the list holds something that is no call")
    try:
        return tuple(_call(element) for element in body.elts if isinstance(element, ast.Call))
    except (RecursionError, TypeError) as error:
        raise CallError(f"an argument cannot be read: {error}") from error


def first_brackets(text: str) -> str | None:
    """The first `[...]` whose brackets balance.

    >>> first_brackets("so: [a(x=[1])] or [b()]")
    '[a(x=[1])]'
    """
    start, depth = -1, 0
    for place, letter in enumerate(text):
        if letter == "[":
            start = place if depth == 0 else start
            depth += 1
        elif letter == "]" and depth:
            depth -= 1
            if depth == 0:
                return text[start : place + 1]
    return None


def _call(node: ast.Call) -> ProseCall:
    arguments = {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    return ProseCall(_name(node.func), arguments)


def _name(node: ast.expr) -> str:
    """A possibly dotted name; what is neither name nor attribute is left out."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _value(node: ast.expr) -> Any:
    """An argument as data; names are their own text, and what is no data is its source text."""
    match node:
        case ast.Constant():
            return "..." if node.value is Ellipsis else node.value
        case ast.UnaryOp():
            operand = _value(node.operand)
            return -operand if isinstance(operand, int | float) and isinstance(node.op, ast.USub) else operand
        case ast.List():
            return [_value(item) for item in node.elts]
        case ast.Tuple():
            return tuple(_value(item) for item in node.elts)
        case ast.Dict():
            return {_value(key): _value(item) for key, item in zip(node.keys, node.values, strict=True) if key}
        case ast.Name():
            return node.id
        case ast.Call():
            inner = _call(node)
            return {inner.name: inner.arguments}
        case _:
            return ast.unparse(node)
