"""From a foreign source to a file of ours: its own text, what it imports made to be had, and the adapter at its end."""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from spade_environments.importing.shapes import FoundClass, Shape
from spade_environments.spec import EnvironmentSpec, Skill, SpecError

__all__ = ["ImportedSource", "imported"]

_ADAPTERS = "spade_environments.adapters"
_SKILLS = {
    Shape.GAME: Skill.LOGICAL_DEDUCTION,
    Shape.TOOLS: Skill.STATE_MODIFICATION,
    Shape.GYMNASIUM: Skill.LOGICAL_DEDUCTION,
}

# Names that the release puts into a generated source before it runs it, and what brings each of them.
_FROM = {
    "typing": "Any Callable Dict FrozenSet Iterable List Mapping Optional Sequence Set Tuple Union",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "itertools": "accumulate chain combinations permutations product",
    "functools": "lru_cache reduce",
    "heapq": "heappop heappush",
    "copy": "deepcopy",
    _ADAPTERS: "ToolUseBaseEnv",
}
_MODULES = "collections copy functools heapq itertools json math numpy operator random re statistics string"
_GIVEN = {name: f"import {name}" for name in _MODULES.split()} | {
    name: f"from {module} import {name}" for module, names in _FROM.items() for name in names.split()
}
_GIVEN["np"] = "import numpy as np"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSource:
    """What an import comes to.

    Attributes:
        spec: the environment, its source self-contained, its provenance kind `imported`.
        found: the class it was made from.
    """

    spec: EnvironmentSpec
    found: FoundClass


def imported(
    source: str,
    found: FoundClass,
    *,
    origin: str,
    skill: Skill | None = None,
    domain: str = "general",
    max_turns: int | None = None,
) -> ImportedSource:
    """One class of `source` as an environment of ours; the same input gives the same source, and so the same id.

    Args:
        source: a whole Python file.
        found: which class of it (`classes_in`).
        origin: where it came from, for the provenance.
        skill: what it trains; a game's or a tool environment's usual one unless given.
        domain: everyday domain or topic.
        max_turns: instead of what the class says of itself.

    Raises:
        SpecError: it does not parse.
    """
    text = _rewritten(source.replace("\r\n", "\n"))
    turns = found.max_turns if max_turns is None else max_turns
    adapter = "tool_env" if found.shape is Shape.TOOLS else "text_env"
    boxed = ", boxed=True" if found.boxed and adapter == "text_env" else ""
    tail = (
        f"# Imported: played through an adapter.\nfrom {_ADAPTERS} import {adapter}\n\n"
        f"Imported = {adapter}({found.name}{boxed}, max_turns={turns})\n"
    )
    provenance = {
        "kind": "imported",
        "shape": found.shape.value,
        "class": found.name,
        "origin": origin,
        "sha256": hashlib.sha256(source.encode()).hexdigest(),
    }
    spec = EnvironmentSpec(
        name=_snake(found.name),
        source=f"{text.rstrip()}\n\n\n{tail}",
        skill=skill or _SKILLS[found.shape],
        domain=domain,
        provenance=provenance,
    )
    return ImportedSource(spec=spec, found=found)


def _snake(name: str) -> str:
    stem = name.removesuffix("Env").strip("_") or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", stem).lower()


def _rewritten(source: str) -> str:
    """The source with foreign imports turned to what the adapters lend, and with the imports that it leaves out."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(f"it does not parse: {error}") from error
    lines = source.split("\n")
    for node in sorted(_imports(tree), key=lambda node: node.lineno, reverse=True):
        replaced = _replacement(node)
        if replaced is not None:
            _check_alone(lines[node.lineno - 1 : node.end_lineno])
            indent = " " * node.col_offset
            lines[node.lineno - 1 : node.end_lineno] = [indent + line for line in replaced]
    missing = sorted({_GIVEN[name] for name in _unbound(ast.parse("\n".join(lines))) if name in _GIVEN})
    if re.search(r"\bnp_random\b", source) and not re.search(r"^\s*(import|from)\s+numpy\b", source, re.MULTILINE):
        missing.append("import numpy")
    if missing:
        start = _first_line(tree)
        lines[start:start] = [*missing, ""]
    return "\n".join(lines)


def _check_alone(lines: list[str]) -> None:
    """Raise `SpecError` unless the lines hold one statement and no more."""
    try:
        count = len(ast.parse(textwrap.dedent("\n".join(lines))).body)
    except SyntaxError:
        count = 0
    if count != 1:
        raise SpecError(f"an import shares its line with something else: {lines[0].strip()[:80]!r}; give it a line")


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def _replacement(node: ast.Import | ast.ImportFrom) -> list[str] | None:
    """The lines that stand in for an import; `None` where it stays."""
    if isinstance(node, ast.Import):
        if not any(_lent(alias.name) for alias in node.names):
            return None
        return [_plain(alias) for alias in node.names]
    names = ", ".join(alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in node.names)
    module = node.module or ""
    if [alias.name for alias in node.names] == ["ToolUseBaseEnv"]:
        return [f"from {_ADAPTERS} import {names}"]
    lent = _lent(module)
    return [f"from {lent} import {names}"] if lent and not node.level else None


def _plain(alias: ast.alias) -> str:
    lent = _lent(alias.name)
    if not lent:
        return f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
    package, _, name = lent.rpartition(".")
    bound = alias.asname or alias.name.split(".")[0]
    if not alias.asname and "." in alias.name:
        package, name = _ADAPTERS, "gymnasium"
    return f"from {package} import {name}" + (f" as {bound}" if bound != name else "")


def _lent(module: str) -> str:
    """Where the adapters keep what a foreign module holds; empty where they have none of it."""
    root, _, rest = module.partition(".")
    if root in ("gym", "gymnasium"):
        return f"{_ADAPTERS}.gymnasium" + (f".{rest}" if rest and rest != "core" else "")
    return f"{_ADAPTERS}.math_verify" if module == "math_verify" else ""


def _unbound(tree: ast.Module) -> set[str]:
    """Names that are read somewhere and bound nowhere."""
    bound = set(dir(builtins))
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return read - bound


def _first_line(tree: ast.Module) -> int:
    """How many lines stand before the first statement that is neither docstring nor `from __future__`."""
    for node in tree.body:
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not words and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            decorators = [item.lineno for item in getattr(node, "decorator_list", ())]
            return int(min([node.lineno, *decorators])) - 1
    return 0
