"""Which errors the command line tells in one message, and with which exit code."""

from __future__ import annotations

import errno
import io
from typing import IO, NamedTuple, Protocol, runtime_checkable

from spade_agents.errors import SpadeError
from spade_environments import EnvironmentFault, HostFault, SpecError
from spade_environments.sandbox.settings import UntrustedSourceError

__all__ = ["FAILED", "OK", "UNDECIDED", "USAGE", "Failure", "WrongUsage", "described", "shown", "worst"]

OK, FAILED, USAGE, UNDECIDED = 0, 1, 2, 3

_EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "tokenizers", "safetensors", "deepspeed", "numpy"), "train"),
    "agents": "agents",
    "ray": "ray",
    **dict.fromkeys(("datasets", "pyarrow"), "corpus"),
}


# What a path given by a person may meet anywhere; a file that is missing is told where it is looked for.
_UNFIT_PATH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Failure(NamedTuple):
    """What a person reads on stderr, and what a script reads."""

    message: str
    exit_code: int


@runtime_checkable
class WrongUsage(Protocol):
    """What the parser of command lines raises: it repeats arguments, which may hold anything."""

    exit_code: int

    def show(self, file: IO[str] | None = None) -> None: ...


def shown(error: WrongUsage) -> str:
    """What such an error says, with the usage of its command."""
    told = io.StringIO()
    error.show(file=told)
    return told.getvalue().rstrip("\n")


def described(error: Exception) -> Failure | None:
    """The message and exit code of an error of ours; `None` for one that is a fault in the program."""
    if isinstance(error, SpadeError):
        return Failure(str(error), error.exit_code)
    if isinstance(error, SpecError | UntrustedSourceError):
        return Failure(str(error), USAGE)
    if isinstance(error, EnvironmentFault):
        advice = "the environment is at fault; `spade env certify` tells which gate it fails"
        return Failure(f"{error} ({advice})", FAILED)
    if isinstance(error, HostFault):
        return Failure(f"{error} (the machine is at fault, not the environment; `spade doctor` tells more)", UNDECIDED)
    if isinstance(error, OSError) and error.errno in _UNFIT_PATH and error.filename is not None:
        name = str(error.filename)
        told = name if len(name) <= 200 else f"{name[:200]}…"
        return Failure(f"{told}: {error.strerror}; give a path that can be used", USAGE)
    if isinstance(error, OSError) and error.errno in _FULL:
        return Failure(
            f"nothing more can be written: {error.strerror}; make room and go on (a run by: spade train --resume RUN)",
            UNDECIDED,
        )
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        extra = _EXTRAS[error.name]
        return Failure(f"{error.name} is not installed; this needs: pip install 'spade-agents[{extra}]'", USAGE)
    return None


def worst(codes: list[int]) -> int:
    """The exit code of several checks: a failed one before an undecided one before success."""
    return next((code for code in (USAGE, FAILED, UNDECIDED) if code in codes), OK)
