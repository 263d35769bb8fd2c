"""Gate 1: what the text of a source shows, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from spade_environments.inside import contract
from spade_environments.inside.adapters import ALIASES

from .lint_rules import (
    BASE_NAMES,
    FORBIDDEN_ATTRIBUTES,
    FORBIDDEN_NAMES,
    KEPT_BY_THE_BASE,
    MODULES,
    ORDINARY_WORDS,
    PLAIN_DUNDERS,
    REFLECTION,
)

__all__ = ["Problem", "lint"]

MAX_PROBLEMS = 5
_FORMATTING = ("format", "format_map")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a source: where, what was found, and what to write instead."""

    line: int
    found: str
    repair: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.found}" if self.line else self.found


def lint(source: str, *, max_bytes: int = 65_536, designed: bool = True) -> tuple[Problem, ...]:
    """The faults of a source, at most `MAX_PROBLEMS`, in order of lines; it is parsed and never run.

    Args:
        source: a whole designed file.
        max_bytes: largest source, in UTF-8 bytes.
        designed: also demand the form of a designed file (its first import, one public class on a base).
    """
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        return (Problem(0, "the source is not valid Unicode text", "Write plain text, without lone surrogates."),)
    if size > max_bytes:
        return (Problem(0, f"the source is {size} bytes; at most {max_bytes}", "Write a shorter environment."),)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        found = f"syntax error: {error.msg}"
        return (Problem(error.lineno or 0, found, "Return one complete, valid Python file and nothing else."),)
    except (RecursionError, MemoryError, ValueError) as error:
        return (Problem(0, f"the source cannot be parsed: {error}", "Nest less, and leave out control characters."),)
    problems = list(_form(tree)) if designed else []
    names = _Names.of(tree)
    problems += [problem for node in _nodes(tree) for problem in _node_problems(node, names, designed)]
    problems += _text_formatting(tree)
    return tuple(sorted(set(problems), key=lambda problem: problem.line)[:MAX_PROBLEMS])


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Every node, and those of annotations that stand in strings: they are run when a tool's types are read."""
    for node in ast.walk(tree):
        yield node
        written = getattr(node, "annotation", None) or getattr(node, "returns", None)
        for part in ast.walk(written) if isinstance(written, ast.expr) else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield from _annotation_nodes(part)


def _annotation_nodes(text: ast.Constant) -> Iterator[ast.AST]:
    try:
        inner = ast.parse(str(text.value), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # a word of a Literal, or no type at all: nothing that could run
    nodes = list(ast.walk(inner))
    if any(isinstance(node, ast.Call | ast.Attribute) for node in nodes):  # a lone name does nothing
        yield from (ast.copy_location(node, text) for node in nodes)


def _form(tree: ast.Module) -> Iterator[Problem]:
    body = [node for node in tree.body if not _is_docstring(node) and not _is_import_of(node, "__future__")]
    if not body or not _is_import_of(body[0], "spade_environments"):
        line = body[0].lineno if body else 1
        yield Problem(
            line,
            "the file does not begin with an import from spade_environments",
            "Begin with: from spade_environments import TextEnv, ToolEnv, tool, Goal, Call, ToolError",
        )
    bases = _derived(tree)
    public = [name for name in bases if not name.startswith("_")]
    if len(public) != 1:
        found = f"found {len(public)} public classes on TextEnv or ToolEnv ({', '.join(public) or 'none'}); wanted one"
        yield Problem(0, found, "Define exactly one public class that derives from TextEnv or ToolEnv.")
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and bases.get(node.name) == "ToolEnv":
            yield from _tool_env_problems(node)


def _derived(tree: ast.Module) -> dict[str, str]:
    """Classes at top level that derive from a base of the contract, in order, with that base."""
    known = {name: name for name in BASE_NAMES}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "spade_environments":
            known |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in BASE_NAMES}
    derived: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
            base = next((known[name] for name in names if name in known), None)
            if base is not None:
                known[node.name] = derived[node.name] = base
    return derived


def _tool_env_problems(cls: ast.ClassDef) -> Iterator[Problem]:
    for node in ast.walk(cls):
        name = (
            node.name if isinstance(node, ast.FunctionDef) else node.attr if isinstance(node, ast.Attribute) else None
        )
        if name in ("reset", "step", "available_tools") and node in cls.body:
            repair = f"Remove {name}: write setup, @tool methods, goals and solution."
            yield Problem(cls.lineno, f"{cls.name} overrides {name}, which ToolEnv provides", repair)
        elif name in KEPT_BY_THE_BASE:
            repair = "Use another name: the base keeps its place among the goals there."
            yield Problem(getattr(node, "lineno", 0), f"{cls.name} touches {name}, which ToolEnv keeps", repair)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a source's names stand for: imported modules and functions, its own variables, names that are called."""

    imported: dict[str, str]
    own: frozenset[str]
    called: frozenset[int]

    @classmethod
    def of(cls, tree: ast.Module) -> Self:
        imported: dict[str, str] = {}
        own: set[str] = set()
        called: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.asname or _root(alias.name): _root(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.arg):
                own.add(node.arg)
            elif isinstance(node, ast.Call):
                called.add(id(node.func))
        return cls(imported, frozenset(own), frozenset(called))

    def module_of(self, node: ast.expr) -> str:
        """The imported module or name at the root of `a.b.c`; empty where there is none."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return self.imported.get(node.id, "") if isinstance(node, ast.Name) else ""


def _root(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def _node_problems(node: ast.AST, names: _Names, designed: bool) -> Iterator[Problem]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _import_problems(node, alias.name, [])
    elif isinstance(node, ast.ImportFrom):
        if not designed and node.module in ALIASES and not node.level:
            return
        yield from _import_problems(node, "." * node.level + (node.module or ""), [alias.name for alias in node.names])
    elif isinstance(node, ast.Name):
        yield from _name_problems(node, names)
    elif isinstance(node, ast.Attribute):
        yield from _attribute_problems(node, names)
    elif isinstance(node, ast.Call):
        yield from _reflection_problems(node, names)
    elif isinstance(node, ast.ClassDef) and designed:
        yield from _class_problems(node, names)


def _import_problems(node: ast.Import | ast.ImportFrom, module: str, names: list[str]) -> Iterator[Problem]:
    root, *inner = module.split(".")
    if root == "spade_environments":
        unknown = [name for name in names if name not in contract.__all__]
        if module != root or unknown or isinstance(node, ast.Import):
            offered = ", ".join(contract.__all__)
            found = f"spade_environments has no {unknown[0]!r} for designed files" if unknown else f"import of {module}"
            yield Problem(node.lineno, found, f"Import by name from spade_environments: {offered}.")
    elif root not in MODULES:
        repair = f"Do without {root or module}; the modules that may be imported: {', '.join(sorted(MODULES))}."
        yield Problem(node.lineno, f"import of {module!r}, which is not allowed", repair)
    elif any(name == "*" or name.startswith("_") for name in names if root != "__future__"):
        yield Problem(node.lineno, f"import of * or of a private name from {module}", "Import public names one by one.")
    for name in (*inner, *names):
        if (root, name) in FORBIDDEN_ATTRIBUTES:
            yield Problem(node.lineno, f"import of {root}.{name}, which is not allowed", f"Do without {root}.{name}.")


def _name_problems(node: ast.Name, names: _Names) -> Iterator[Problem]:
    if node.id in FORBIDDEN_NAMES and not (node.id in ORDINARY_WORDS and node.id in names.own):
        repair = f"Do without {node.id}; a variable of that name needs another."
        yield Problem(node.lineno, f"use of {node.id}, which is not allowed", repair)
    elif _is_dunder(node.id) and node.id not in PLAIN_DUNDERS:
        yield Problem(node.lineno, f"use of {node.id}, which is not allowed", f"Do without {node.id}.")
    elif names.imported.get(node.id, node.id) in REFLECTION - names.own and id(node) not in names.called:
        yield Problem(
            node.lineno, f"{node.id} handed on as a value", f"Call {node.id} with a literal name, or not at all."
        )


def _attribute_problems(node: ast.Attribute, names: _Names) -> Iterator[Problem]:
    owner = names.module_of(node.value)
    if owner and not isinstance(node.ctx, ast.Load):
        repair = "Keep what you need in attributes of your own class."
        yield Problem(node.lineno, f"{owner}.{node.attr} is changed, which is not yours", repair)
    if (_is_dunder(node.attr) and node.attr not in PLAIN_DUNDERS) or ("", node.attr) in FORBIDDEN_ATTRIBUTES:
        found = f"the attribute {node.attr}, which walks into the interpreter"
        yield Problem(node.lineno, found, f"Do without {node.attr}; keep what you need in your own attributes.")
    elif (owner, node.attr) in FORBIDDEN_ATTRIBUTES or (owner in MODULES and node.attr.startswith("_")):
        yield Problem(node.lineno, f"{owner}.{node.attr}, which is not allowed", f"Do without {owner}.{node.attr}.")
    elif owner == "operator" and node.attr in REFLECTION and id(node) not in names.called:
        found = f"{owner}.{node.attr} handed on as a value"
        yield Problem(node.lineno, found, f"Call {node.attr} with a literal name, or not at all.")


def _class_problems(node: ast.ClassDef, names: _Names) -> Iterator[Problem]:
    for base in node.bases:
        if names.module_of(base) in ("Goal", "Call"):
            found = f"{node.name} derives from {ast.unparse(base)}, which decides what is met"
            yield Problem(node.lineno, found, "Use Goal and Call as they are; write a check for what is to be asked.")


def _reflection_problems(node: ast.Call, names: _Names) -> Iterator[Problem]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    name = names.imported.get(name, name)
    if name not in REFLECTION:
        return
    arguments = node.args if name in ("attrgetter", "methodcaller") else node.args[1:2]
    values = [argument.value if isinstance(argument, ast.Constant) else None for argument in arguments]
    if not values or not all(isinstance(value, str) for value in values):
        repair = "Use a dict from names to methods or values instead."
        yield Problem(node.lineno, f"{name} with a name that is not a literal", repair)
    elif any(
        part.startswith("__") or {("", part), (names.module_of(node.args[0]), part)} & FORBIDDEN_ATTRIBUTES
        for value in values
        for part in str(value).split(".")
    ):
        yield Problem(node.lineno, f"{name} of {values[0]!r}, which walks into the interpreter", f"Do without {name}.")


def _text_formatting(tree: ast.Module) -> Iterator[Problem]:
    """`.format` and `%` on text that is no literal: text of an agent must never become a template."""
    methods = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    texts = {"action"} | {
        argument.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.arguments)
        for argument in node.args
        if isinstance(argument.annotation, ast.Name) and argument.annotation.id == "str"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _FORMATTING and not _is_safe_format(node, methods):
            yield Problem(node.lineno, f".{node.attr} on text that is not a plain literal", "Use an f-string.")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text_modulo(node, texts):
            yield Problem(node.lineno, "% formatting of text that is not a literal", "Use an f-string.")


def _is_safe_format(node: ast.Attribute, methods: set[str]) -> bool:
    if isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str) and "__" not in node.value.value
    return isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in methods


def _is_text_modulo(node: ast.BinOp, texts: set[str]) -> bool:
    if isinstance(node.left, ast.Constant | ast.JoinedStr):
        return isinstance(node.left, ast.JoinedStr)
    right = node.right
    as_text = isinstance(right, ast.Tuple | ast.Dict | ast.JoinedStr)
    as_text = as_text or (isinstance(right, ast.Constant) and isinstance(right.value, str))
    return as_text or (isinstance(node.left, ast.Name) and node.left.id in texts)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and len(name) > 4


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_import_of(node: ast.stmt, module: str) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == module and node.level == 0
