"""JSON of plain values by an encoder that is made once, and not anew for each text."""

from __future__ import annotations

from json import encoder
from typing import Any

__all__ = ["dumps"]


def _refuse(value: Any) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_make: Any = vars(encoder)["c_make_encoder"]  # what json.dumps calls itself
_parts_of = _make(None, _refuse, encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True)
_join = "".join


def dumps(value: Any) -> str:
    """What `json.dumps(value)` gives; a value that holds itself is a RecursionError here."""
    return _join(_parts_of(value, 0))
