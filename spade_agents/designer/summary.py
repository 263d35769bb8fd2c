"""One line that tells what an environment is made of: what the compact prompt shows of an earlier design."""

from __future__ import annotations

import ast

__all__ = ["class_name", "summarise"]


def summarise(source: str) -> str:
    r"""Class name, tool names and goal kinds of a designed source, read from its syntax tree and never run.

    >>> summarise("class Shelf(ToolEnv):\n    @tool\n    def get_book(self): ...\n    def goals(self):\n"
    ...           "        return [Goal('state', 'x', f)]")
    'Shelf: get_book: state'

    Raises:
        SyntaxError: the source does not parse (a certified one does).
    """
    tree = ast.parse(source)
    tools = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_tool(node)]
    kinds = [str(node.args[0].value) for node in ast.walk(tree) if _is_goal(node) and isinstance(node, ast.Call)
             and isinstance(node.args[0], ast.Constant)]  # fmt: skip
    return ": ".join(part for part in (_class_name(tree), " ".join(tools), " ".join(kinds)) if part)


def class_name(source: str) -> str:
    """The name of the last class of a source, or "environment" where none can be read."""
    try:
        return _class_name(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "environment"


def _class_name(tree: ast.Module) -> str:
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return classes[-1].name if classes else "environment"


def _is_tool(node: ast.FunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "tool" for mark in node.decorator_list)


def _is_goal(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Goal" and bool(node.args)
