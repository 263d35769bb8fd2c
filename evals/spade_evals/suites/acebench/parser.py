"""Calls in prose, `[Name(key='value')]`, read by their syntax tree: nothing that a model writes is ever evaluated."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["CallError", "ProseCall", "first_brackets", "parse_calls", "read_calls"]

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
    body = _parsed(text)
    if not isinstance(body, ast.List | ast.Tuple):
        raise CallError("no list of calls")
    if not all(isinstance(element, ast.Call) for element in body.elts):
        raise CallError("the list holds something that is no call")
    return _calls(body.elts, source=False)


def read_calls(text: str) -> tuple[ProseCall, ...]:
    """The calls of a message in a dialogue, read as leniently as the protocol does: brackets may be missing.

    Raises:
        CallError: what stands there is no syntax.
    """
    inner = text.removeprefix(" ")
    inner = inner if inner.startswith("[") else f"[{inner}"
    inner = inner if inner.endswith("]") else f"{inner}]"
    body = _parsed(inner.strip("[]'"))
    elements = body.elts if isinstance(body, ast.Tuple | ast.List) else [body]
    return _calls(elements, source=True)


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


def _parsed(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise CallError(f"the response has {len(text)} characters; at most {_LONGEST} are parsed")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CallError(f"no syntax: {error}") from error


def _calls(elements: Sequence[ast.expr], *, source: bool) -> tuple[ProseCall, ...]:
    try:
        return tuple(_call(element, source=source) for element in elements if isinstance(element, ast.Call))
    except (RecursionError, TypeError, ValueError) as error:
        raise CallError(f"an argument cannot be read: {error}") from error


def _call(node: ast.Call, *, source: bool) -> ProseCall:
    arguments = {
        keyword.arg: _value(keyword.value, source=source) for keyword in node.keywords if keyword.arg is not None
    }
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


def _value(node: ast.expr, *, source: bool) -> Any:
    """An argument as data; names are their own text, and what is no data is its source text.

    A call without keywords is its source text in a dialogue (`source`), and a name to grade elsewhere.
    """
    match node:
        case ast.Constant():
            return "..." if node.value is Ellipsis else node.value
        case ast.UnaryOp():
            operand = _value(node.operand, source=source)
            return -operand if isinstance(operand, int | float) and isinstance(node.op, ast.USub) else operand
        case ast.List():
            return [_value(item, source=source) for item in node.elts]
        case ast.Tuple():
            return tuple(_value(item, source=source) for item in node.elts)
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_value(key, source=source): _value(item, source=source) for key, item in pairs if key}
        case ast.Name():
            return node.id
        case ast.Call() if source and not node.keywords:
            return ast.unparse(node)
        case ast.Call():
            inner = _call(node, source=source)
            return {inner.name: inner.arguments}
        case _:
            return ast.unparse(node)
