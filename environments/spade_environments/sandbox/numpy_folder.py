"""Where numpy lies, for a child that loads it from there, and which programs want it."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from spade_environments.faults import FaultKind, HostFault

__all__ = ["mentions_numpy", "numpy_folder"]

_NUMPY = re.compile(r"\bnumpy\b")


def mentions_numpy(source: str) -> bool:
    """Whether a program may want numpy: it is imported in many ways, and a zygote that has it costs no more."""
    return _NUMPY.search(source) is not None


def numpy_folder() -> str:
    """The folder that holds numpy's package.

    Raises:
        HostFault: it is not installed.
    """
    found = find_spec("numpy")
    if found is None or found.origin is None:
        told = "the environment needs numpy, which is not installed here: pip install numpy"
        raise HostFault(FaultKind.SANDBOX_SETUP, "load", told)
    return str(Path(found.origin).parent.parent)
