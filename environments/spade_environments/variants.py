"""Variants: the same source with other difficulty parameters, read and written by syntax tree, never executed."""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from spade_environments.spec import EnvironmentSpec, SpecError

__all__ = ["Parameter", "parameters", "skeleton", "variant"]

Parameter = int | float | str

_BASES = ("TextEnv", "ToolEnv")


class _Constant(NamedTuple):
    """One `NAME = value` line of the class body; `start` and `end` are byte offsets of the value."""

    name: str
    value: Parameter
    start: int
    end: int


def parameters(source: str) -> dict[str, Parameter]:
    """The difficulty parameters of `source`: upper-case constants (int, float, bool, str) of its public class.

    Raises:
        SpecError: the source does not parse, or has no single public class.
    """
    return {constant.name: constant.value for constant in _constants(source)}


def variant(spec: EnvironmentSpec, **changes: Parameter) -> EnvironmentSpec:
    """The same environment with other difficulty parameters, and so another id; without a change, `spec` itself.

    Its provenance adds `parent` (the id it was made from) and `parameters` (all that differ from the written source).

    Raises:
        SpecError: an unknown parameter, a value of another type (an int passes for a float) or not finite.
    """
    known = {constant.name: constant for constant in _constants(spec.source)}
    for name, value in changes.items():
        if name not in known:
            raise SpecError(f"{spec.name} has no parameter {name!r}; {_suggestion(name, list(known))}")
        _check_type(spec.name, known[name], value)
    edits = {known[name]: _literal(known[name], value) for name, value in changes.items()}
    source = _edited(spec.source, edits)
    if source == spec.source:
        return spec
    recorded = {**spec.provenance.get("parameters", {}), **changes}
    return spec.with_source(source, parent=spec.id, parameters=recorded)


def skeleton(source: str) -> str:
    """`source` with every parameter's value blanked: equal for two sources exactly if one is a variant of the other.

    Raises:
        SpecError: as for `parameters`.
    """
    return _edited(source, {constant: type(constant.value).__name__ for constant in _constants(source)})


def _constants(source: str) -> list[_Constant]:
    starts = _line_starts(source)
    found: dict[str, _Constant] = {}
    for name, value in _assignments(_public_class(source)):
        constant = _constant_value(value)
        if constant is not None and name.isupper() and not name.startswith("_"):
            start = starts[value.lineno - 1] + value.col_offset
            end = starts[(value.end_lineno or value.lineno) - 1] + (value.end_col_offset or 0)
            found[name] = _Constant(name, constant, start, end)
    return list(found.values())


def _public_class(source: str) -> ast.ClassDef:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(f"the source does not parse: {error}") from error
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    derived = set(_BASES)
    for node in classes:
        if any(_base_name(base) in derived for base in node.bases):
            derived.add(node.name)
    public = [node for node in classes if not node.name.startswith("_")]
    wanted = [node for node in public if node.name in derived] or public
    if len(wanted) != 1:
        names = ", ".join(node.name for node in wanted) or "none"
        raise SpecError(f"found {names}; wanted exactly one public class deriving from TextEnv or ToolEnv")
    return wanted[0]


def _base_name(base: ast.expr) -> str:
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def _assignments(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for statement in node.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name):
            yield target.id, value


def _constant_value(node: ast.expr) -> Parameter | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _constant_value(node.operand)
        return -inner if isinstance(inner, int | float) and not isinstance(inner, bool) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        return node.value
    return None


def _line_starts(source: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", source.encode()))]


def _edited(source: str, edits: dict[_Constant, str]) -> str:
    data = source.encode()
    for constant in sorted(edits, key=lambda constant: constant.start, reverse=True):
        data = data[: constant.start] + edits[constant].encode() + data[constant.end :]
    return data.decode()


def _check_type(environment: str, constant: _Constant, value: Parameter) -> None:
    wanted, found = type(constant.value), type(value)
    if found is not wanted and not (wanted is float and found is int):
        raise SpecError(
            f"{environment}: {constant.name} is {wanted.__name__} ({constant.value!r} in the source), "
            f"found {found.__name__} {value!r}; give a value of type {wanted.__name__}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{environment}: {constant.name} is {value!r}; give a finite number")


def _literal(constant: _Constant, value: Parameter) -> str:
    return repr(float(value)) if isinstance(constant.value, float) else repr(value)


def _suggestion(name: str, known: list[str]) -> str:
    if not known:
        return "its source has no upper-case class attribute"
    close = difflib.get_close_matches(name.upper(), known, n=1)
    return (f"did you mean {close[0]}? " if close else "") + f"known: {', '.join(known)}"
