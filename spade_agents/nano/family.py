"""The family of a designed program: a coarse label of its structure, read from the syntax tree and never run."""

from __future__ import annotations

import ast

__all__ = ["family"]


def family(source: str) -> str:
    """State shape, rules and goal kinds, such as `dict of dict|flag|replied+state`.

    The label is coarse on purpose: names, numbers, texts, the order and the number of goals and tools do not count.
    Two designers that differ in it differ in kind; one that gives a single label to most of its programs collapsed.

    Raises:
        SyntaxError: the source does not parse.
    """
    tree = ast.parse(source)
    kinds = sorted({kind for node in ast.walk(tree) if (kind := _goal_kind(node))})
    rules = sorted({rule for node in ast.walk(tree) if isinstance(node, ast.If) and (rule := _rule(node))})
    return f"{_state_shape(tree)}|{'+'.join(rules) or 'free'}|{'+'.join(kinds) or 'none'}"


def _goal_kind(node: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Goal" and node.args:
        first = node.args[0]
        return str(first.value) if isinstance(first, ast.Constant) else "computed"
    return ""


def _state_shape(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_is_own(target, "state") for target in node.targets):
            return _shape(node.value)
    return "unknown"


def _shape(value: ast.expr, depth: int = 2) -> str:
    if isinstance(value, ast.DictComp):
        return f"dict of {_shape(value.value, depth - 1)}" if depth else "dict"
    if isinstance(value, ast.Dict):
        fixed = all(isinstance(key, ast.Constant) for key in value.keys)
        return "record" if fixed else "dict of chosen keys"
    if isinstance(value, ast.List | ast.ListComp):
        return "list"
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return {"randint": "number", "randrange": "number", "choice": "name", "list": "list", "set": "set"}.get(
            name, "value"
        )
    return "value"


def _rule(node: ast.If) -> str:
    """What a guard that raises tests: a flag, a set of permissions, or a value kept apart from the state."""
    if not (node.body and isinstance(node.body[0], ast.Raise)):
        return ""
    test = node.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _is_own(test.operand):
        return "flag"
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _is_own(test.comparators[0]):
        if isinstance(test.ops[0], ast.NotIn):
            return "permission"
        if isinstance(test.ops[0], ast.NotEq):
            return "secret"
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Call):
        return "capacity"
    return ""


def _is_own(node: ast.expr, name: str | None = None) -> bool:
    """Whether the node is `self.name`; without a name, any attribute of self but the state."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and (node.attr == name if name else node.attr != "state")
    )
