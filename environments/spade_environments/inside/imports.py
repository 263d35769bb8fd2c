"""What designed source may import: an allow-list, preloaded before the fork because files cannot be opened after it."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import contract

__all__ = ["ALLOWED_MODULES", "guard_imports", "preload"]

ALLOWED_MODULES = (
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "collections",
    "collections.abc", "colorsys", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum",
    "fractions", "functools", "graphlib", "hashlib", "heapq", "hmac", "html", "html.entities", "html.parser", "io",
    "itertools", "json", "keyword", "math", "numbers", "operator", "pprint", "queue", "random", "re", "secrets",
    "statistics", "string", "struct", "textwrap", "time", "types", "typing", "unicodedata", "uuid", "zlib",
)  # fmt: skip
"""Standard-library modules that designed source may import."""

_LAZY_MODULES = (
    "_strptime", "codecs", "encodings.ascii", "encodings.idna", "encodings.latin_1", "encodings.utf_16",
    "encodings.utf_32", "encodings.utf_8_sig", "encodings.punycode", "encodings.cp1252", "encodings.rot_13",
    "encodings.hex_codec", "encodings.raw_unicode_escape", "encodings.unicode_escape", "gettext",
    "json.decoder", "json.encoder", "linecache", "locale", "opcode", "inspect", "stringprep", "tokenize", "traceback",
    "warnings", "weakref",
)  # fmt: skip
# What the standard library itself imports late, in the middle of a call.

_NUMPY_MODULES = ("numpy", "numpy.char", "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random",
                  "numpy.rec", "numpy.strings")  # fmt: skip

_DESIGNED = "designed_environment"


def preload(extra: Iterable[str] = (), numpy_folder: str | None = None) -> None:
    """Import every allowed module, what these import late, `extra`, and numpy where its folder is given.

    `datetime` is loaded in its pure Python form: the C form reads the machine's clock past any patch of `time`.
    """
    if numpy_folder is not None:
        _preload_numpy(numpy_folder)
    sys.modules["_datetime"] = None  # type: ignore[assignment]
    for name in (*ALLOWED_MODULES, *_LAZY_MODULES, *extra):
        importlib.import_module(name)
    sys.modules["spade_environments"] = contract


def _preload_numpy(folder: str) -> None:
    """Import numpy, which needs the C form of `datetime`; that form is then forgotten, and loaded anew by `preload`."""
    sys.path.append(folder)
    for name in _NUMPY_MODULES:
        importlib.import_module(name)
    sys.path.remove(folder)
    for name in [name for name, module in sys.modules.items() if hasattr(module, "datetime") or "datetime" in name]:
        if not name.startswith("numpy"):
            del sys.modules[name]


def guard_imports(extra: Iterable[str] = ()) -> None:
    """Refuse, by name, what the designed module imports outside the allow-list; the library's own imports go on.

    This tells a designer what to do. It does not hold a hostile program: the kernel's layers do.
    """
    real = builtins.__import__
    numpy_modules = [name for name in sys.modules if name.partition(".")[0] == "numpy"]
    allowed = frozenset((*ALLOWED_MODULES, *numpy_modules, *extra, "spade_environments"))

    def guarded(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if globals is not None and globals.get("__name__") == _DESIGNED and (level or name not in allowed):
            raise ImportError(
                f"module {'.' * level + name!r} is not available here; use one of {', '.join(ALLOWED_MODULES)}, numpy"
            )
        return real(name, globals, locals, fromlist or (), level)

    builtins.__import__ = guarded
