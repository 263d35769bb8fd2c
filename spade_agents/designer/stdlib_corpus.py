"""A corpus from the Python standard library: the documentation and signatures of its own sources."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from spade_agents.designer.corpus import Document

__all__ = ["stdlib_documents"]

_MIN_WORDS = 25


def stdlib_documents(*, words: int = 400, root: Path | None = None) -> Iterator[Document]:
    """Documents of at most `words` words, one or more for each public module, in alphabetical order.

    Args:
        words: the length of a document.
        root: where the sources lie; by default those of the running Python.
    """
    folder = root or Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("*/__init__.py")):
        name = path.stem if path.stem != "__init__" else path.parent.name
        if name.startswith("_") or name in {"test", "site-packages"}:
            continue
        text = _prose(path).split()
        for part, start in enumerate(range(0, len(text), words)):
            chunk = text[start : start + words]
            if len(chunk) >= _MIN_WORDS:
                yield Document(id=f"stdlib/{name}/{part}", text=" ".join(chunk), domain="python")


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
