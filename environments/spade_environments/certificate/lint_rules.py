"""The closed lists of gate 1: modules that may be imported, names and attributes that may not be used."""

from __future__ import annotations

__all__ = [
    "BASE_NAMES",
    "FORBIDDEN_ATTRIBUTES",
    "FORBIDDEN_NAMES",
    "KEPT_BY_THE_BASE",
    "MODULES",
    "ORDINARY_WORDS",
    "PLAIN_DUNDERS",
    "REFLECTION",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BASE_NAMES = ("TextEnv", "ToolEnv")

MODULES = _words(
    """abc array ast base64 binascii bisect calendar cmath collections colorsys contextlib copy csv dataclasses datetime
    decimal difflib enum fractions functools graphlib hashlib heapq hmac html io itertools json keyword math numbers
    numpy operator pprint queue random re secrets statistics string struct textwrap time types typing unicodedata uuid
    zlib __future__ spade_environments"""
)

FORBIDDEN_NAMES = _words(
    """eval exec compile __import__ open globals locals vars input breakpoint exit quit help
    __builtins__ __loader__ __spec__"""
)

# Builtins whose names a designer may well give to a variable.
ORDINARY_WORDS = _words("open input vars help exit quit locals globals")

REFLECTION = _words("getattr setattr delattr hasattr attrgetter methodcaller")

# Methods that a class may well define or call by name, and module names that only describe.
PLAIN_DUNDERS = _words(
    """__init__ __post_init__ __name__ __qualname__ __doc__ __str__ __repr__ __len__ __iter__ __next__ __contains__
    __getitem__ __setitem__ __delitem__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __bool__ __call__ __add__
    __sub__ __mul__ __neg__ __enter__ __exit__ __slots__ __all__ __members__"""
)

_INTERPRETER = _words(
    """f_globals f_locals f_builtins f_back f_code tb_frame tb_next gi_frame gi_code cr_frame cr_code ag_frame ag_code
    func_globals func_code mro __spade_tool__"""
)
_NUMPY_FILES = _words(
    """load save savez savez_compressed loadtxt savetxt genfromtxt fromfile memmap ctypeslib f2py distutils sys os"""
)
# What allowed modules hold without being asked, under the names that they give it (Python 3.11 to 3.13).
_REACHES = _words(
    """sys os builtins bltns platform threading inspect codecs copyreg warnings subprocess socket signal ctypes
    importlib pathlib shutil tempfile"""
)

# ("", name) is forbidden on anything, (module, name) on that module.
FORBIDDEN_ATTRIBUTES = frozenset(
    {("", name) for name in _INTERPRETER}
    | {("numpy", name) for name in _NUMPY_FILES}
    | {(module, name) for module in MODULES for name in _REACHES}
    | {("io", name) for name in _words("open open_code FileIO OpenWrapper")}
    | {("typing", name) for name in _words("get_type_hints ForwardRef evaluate_forward_ref")}
    | {("types", name) for name in _words("FunctionType LambdaType CodeType")}
    | {("string", "Formatter")}
)

# Attributes with which ToolEnv keeps its place among the goals.
KEPT_BY_THE_BASE = _words("_goals _locked _unlocked_now _position _calls _before _begin_goal _run")
