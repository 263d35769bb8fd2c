"""Which classes of a source are environments, of which shape, and what they say of themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from spade_environments.inside.contract import MAX_TURNS_LIMIT
from spade_environments.spec import SpecError

__all__ = ["FoundClass", "Shape", "classes_in"]

_TURNS = ("max_turns", "max_steps", "turn_limit", "MAX_TURNS", "MAX_STEPS")
_DEFAULT_TURNS = 20
_TOOL_BASE = "ToolUseBaseEnv"
_NATIVE = ("TextEnv", "ToolEnv")
_GYM_BASES = ("Env", "gym.Env", "gymnasium.Env", "core.Env")


class Shape(StrEnum):
    """What kind of environment a class is."""

    GAME = "game"
    TOOLS = "tools"
    GYMNASIUM = "gymnasium"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClass:
    """An environment found in a source.

    Attributes:
        name: of the class.
        shape: `game` (a plain class), `tools` (on ToolUseBaseEnv), `gymnasium` (on gymnasium's Env).
        boxed: whether it reads its actions from a box.
        max_turns: its own number of turns, at most 25; 20 where it tells none.
        has_solution: whether it defines `solution`.
    """

    name: str
    shape: Shape
    boxed: bool
    max_turns: int
    has_solution: bool


def classes_in(source: str) -> tuple[FoundClass, ...]:
    """The environments that `source` defines at its top level, in order; a base of another one is none.

    Raises:
        SpecError: it does not parse, or is one of ours already.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(f"it does not parse: {error}") from error
    try:
        return tuple(_found(tree))
    except RecursionError as error:
        raise SpecError("it nests too deeply to be read") from error


def _found(tree: ast.Module) -> Iterator[FoundClass]:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    bases = {name for node in classes.values() for name in _bases(node)}
    for name in classes:
        family = [classes[known] for known in _family(name, classes)]
        roots = {base for member in family for base in _bases(member) if base not in classes}
        if roots & set(_NATIVE):
            raise SpecError(f"{name} derives from TextEnv or ToolEnv already: spade env certify takes it as it is")
        shape = _shape(name, roots, family)
        if shape is not None and name not in bases and not name.startswith("_"):
            yield _described(name, shape, family)


def _bases(node: ast.ClassDef) -> list[str]:
    """Names of the bases, `gym.Env[str, str]` as `gym.Env`."""
    return [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]


def _family(name: str, classes: dict[str, ast.ClassDef]) -> list[str]:
    """A class and those of its ancestors that stand in the same source, nearest first."""
    names = [name]
    for known in names:
        names += [base for base in _bases(classes[known]) if base in classes and base not in names]
    return names


def _shape(name: str, roots: set[str], family: list[ast.ClassDef]) -> Shape | None:
    if any(root.rpartition(".")[2] == _TOOL_BASE for root in roots):
        return Shape.TOOLS
    methods = {method.name for node in family for method in _methods(node)}
    if not {"reset", "step"} <= methods:
        return None
    if roots & set(_GYM_BASES):
        return Shape.GYMNASIUM
    return Shape.GAME if name.endswith("Env") and name != "Env" else None


def _methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    yield from (statement for statement in node.body if isinstance(statement, ast.FunctionDef))


def _described(name: str, shape: Shape, family: list[ast.ClassDef]) -> FoundClass:
    turns = next((number for node in family for number in _turns(node)), _DEFAULT_TURNS)
    methods = {method.name for node in family for method in _methods(node)}
    return FoundClass(
        name=name,
        shape=shape,
        boxed=any("boxed" in ast.unparse(node) for node in family),
        max_turns=max(1, min(MAX_TURNS_LIMIT, turns)),
        has_solution="solution" in methods,
    )


def _turns(node: ast.ClassDef) -> Iterator[int]:
    """What a class says of its turns: an attribute of it, a default of its constructor, a number it sets itself."""
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id in _TURNS for target in targets):
                yield from _number(statement.value)
    for method in _methods(node):
        if method.name == "__init__":
            yield from _defaults(method.args)
            for inner in ast.walk(method):
                if isinstance(inner, ast.Assign) and any(_is_own_turns(target) for target in inner.targets):
                    yield from _number(inner.value)


def _defaults(arguments: ast.arguments) -> Iterator[int]:
    plain = arguments.posonlyargs + arguments.args
    pairs = list(zip(reversed(plain), reversed(arguments.defaults), strict=False))
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for name, value in pairs:
        if name.arg in _TURNS:
            yield from _number(value)


def _is_own_turns(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and target.attr in _TURNS and ast.unparse(target.value) == "self"


def _number(value: ast.expr | None) -> Iterator[int]:
    if isinstance(value, ast.Constant) and type(value.value) is int:
        yield value.value
