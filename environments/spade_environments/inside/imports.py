"""What designed source may import: an allow-list, preloaded before the fork because files cannot be opened after it."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import adapters, contract

__all__ = ["ALLOWED_MODULES", "CODE_MODULES", "DESIGNED", "PROGRAM", "guard_imports", "preload", "preload_for_code"]

ALLOWED_MODULES = (
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath", "collections",
    "collections.abc", "colorsys", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum",
    "fractions", "functools", "graphlib", "hashlib", "heapq", "hmac", "html", "html.entities", "html.parser", "io",
    "itertools", "json", "keyword", "math", "numbers", "operator", "pprint", "queue", "random", "re", "secrets",
    "statistics", "string", "struct", "textwrap", "time", "types", "typing", "unicodedata", "uuid", "zlib",
)  # fmt: skip
"""Standard-library modules that designed source may import."""

CODE_MODULES = (
    "argparse", "atexit", "builtins", "bz2", "codecs", "contextvars", "copyreg", "dis", "errno", "fnmatch", "gc",
    "gzip", "inspect", "ipaddress", "linecache", "locale", "logging", "lzma", "marshal", "os", "os.path", "pickle",
    "platform", "posixpath", "reprlib", "resource", "sched", "shlex", "signal", "stat", "sys", "threading", "timeit",
    "token", "tokenize", "traceback", "unittest", "urllib.parse", "warnings", "weakref",
)  # fmt: skip
"""What a program may import besides: nothing here reaches a file, a socket or a process past the kernel's layers."""

_LAZY_MODULES = (
    "_strptime", "codecs", "encodings.ascii", "encodings.idna", "encodings.latin_1", "encodings.utf_16",
    "encodings.utf_32", "encodings.utf_8_sig", "encodings.punycode", "encodings.cp1252", "encodings.rot_13",
    "encodings.hex_codec", "encodings.raw_unicode_escape", "encodings.unicode_escape", "gettext",
    "json.decoder", "json.encoder", "linecache", "locale", "opcode", "inspect", "stringprep", "tokenize", "traceback",
    "warnings", "weakref",
)  # fmt: skip
# What the standard library itself imports late, in the middle of a call.

_LAZY_CODE_MODULES = ("shutil",)

_NUMPY_MODULES = ("numpy", "numpy.char", "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random",
                  "numpy.rec", "numpy.strings")  # fmt: skip

DESIGNED = "designed_environment"
"""Name of the module that holds an environment."""
PROGRAM = "__main__"
"""Name of the module that holds a code tool's program."""


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
    _import_from(folder, _NUMPY_MODULES)
    for name in [name for name, module in sys.modules.items() if hasattr(module, "datetime") or "datetime" in name]:
        if not name.startswith("numpy"):
            del sys.modules[name]


def _import_from(folder: str, names: Iterable[str]) -> None:
    sys.path.append(folder)
    for name in names:
        importlib.import_module(name)
    sys.path.remove(folder)


def preload_for_code(extra: Iterable[str] = (), numpy_folder: str | None = None) -> None:
    """Import what a program may, with the machine's own clock, and numpy where its folder is given."""
    if numpy_folder is not None:
        _import_from(numpy_folder, _NUMPY_MODULES)
    for name in (*ALLOWED_MODULES, *_LAZY_MODULES, *CODE_MODULES, *_LAZY_CODE_MODULES, *extra):
        importlib.import_module(name)


def guard_imports(extra: Iterable[str] = (), *, of: str = DESIGNED) -> None:
    """Refuse, by name, what the module `of` imports outside the allow-list; the library's own imports go on.

    This tells a writer what to do. It does not hold a hostile program: the kernel's layers do.
    """
    real = builtins.__import__
    numpy_modules = [name for name in sys.modules if name.partition(".")[0] == "numpy"]
    named = (*ALLOWED_MODULES, *extra)
    allowed = frozenset(
        (*named, *numpy_modules, *(["spade_environments", *adapters.ALIASES] if of == DESIGNED else []))
    )

    def guarded(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if globals is not None and globals.get("__name__") == of and (level or name not in allowed):
            raise ImportError(
                f"module {'.' * level + name!r} is not available here; use one of {', '.join(named)}, numpy"
            )
        return real(name, globals, locals, fromlist or (), level)

    builtins.__import__ = guarded
