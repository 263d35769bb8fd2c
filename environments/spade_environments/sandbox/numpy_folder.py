"""Where numpy lies, for a child that loads it from there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from spade_environments.faults import FaultKind, HostFault

__all__ = ["numpy_folder"]


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
