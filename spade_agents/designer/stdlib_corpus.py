"""A corpus from the Python standard library: the documentation and signatures of its own sources."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

__all__ = ["stdlib_texts"]


def stdlib_texts(root: Path | None = None) -> Iterator[tuple[str, str]]:
    """Name and text of each public module, in alphabetical order.

    Args:
        root: where the sources lie; by default those of the running Python.
    """
    folder = root or Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("*/__init__.py")):
        name = path.stem if path.stem != "__init__" else path.parent.name
        if not name.startswith("_") and name not in {"test", "site-packages"}:
            yield name, _prose(path)


def _prose(path: Path) -> str:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return ""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    parts = []
    for node in ast.walk(tree):
        if isinstance(node, documented):
            docstring = ast.get_docstring(node)
            if docstring:
                parts.append(f"{getattr(node, 'name', path.stem)}: {docstring}")
    return "\n".join(parts)
