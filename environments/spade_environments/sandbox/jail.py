"""Foreign programs in a jail: any executable, with read-only files, no network, no secrets, and nothing left of it.

What works elsewhere and not in a jail: sessions and process groups of its own, System V and POSIX shared memory
(multiprocessing's locks and queues), files in memory, namespaces; and, unless root starts it, changing modes, owners
and times of files. A jailed program can see whether a file exists that it cannot open, and set the times of one that
everybody may write. Files that it has removed and keeps open are not in the sum of what it writes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spade_environments.faults import FaultKind, HostFault
from spade_environments.sandbox.execution import Execution

if TYPE_CHECKING:
    from spade_environments.sandbox.jailer import Order

__all__ = ["JailLimits", "python_folders", "run_jailed"]

_MIB = 1024 * 1024
_LEAST_MEMORY = 16 * _MIB
_NEVER = ("/proc", "/sys", "/dev", "/run")
_PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JailLimits:
    """What every jailed program may use; its time and memory are arguments of `run_jailed`.

    Attributes:
        processes: processes and threads at once. The kernel counts by user, so that those of another jail that starts
            in the meantime are counted in.
        output: bytes kept of each of stdout and stderr.
        flood: bytes of one stream or file at which the program is ended.
        scratch: bytes on disk that it may add to its scratch folder in sum; looked at a few times a second.
        scratch_files: files and folders that it may add there.
        wall_factor: the wall limit as a multiple of the CPU limit.
        wall_floor: and its least, in seconds: machine load must not look like a slow program.
    """

    processes: int = 128
    output: int = _MIB
    flood: int = 256 * _MIB
    scratch: int = 4096 * _MIB
    scratch_files: int = 100_000
    wall_factor: float = 10.0
    wall_floor: float = 60.0


async def run_jailed(
    argv: Sequence[_PathLike],
    *,
    readable: Sequence[_PathLike] = (),
    scratch: _PathLike | None = None,
    discard: bool = False,
    environment: Mapping[str, str] | None = None,
    stdin: str | bytes = "",
    timeout: float = 60.0,  # noqa: ASYNC109 (CPU time of the program, not a time to wait)
    memory: int = 1024 * _MIB,
    wall: float | None = None,
    limits: JailLimits | None = None,
) -> Execution:
    r"""Run a program that is not ours to its end, and leave nothing of it.

    It can read and execute the system's programs and libraries, `argv[0]` and what is beneath `readable`; it can write
    beneath `scratch`, where it starts, and nowhere else. It has no network: no socket of any family can be made, but
    a pair of local ones connected to each other. It knows of the environment what `environment` holds, and of the
    machine's other processes nothing; it can signal its own alone (before Linux 6.12 none). Started by root it runs as
    the user nobody. When it ends, or meets a limit, every process that descends from it is killed.

    Args:
        argv: an absolute path, and its arguments.
        readable: files and folders.
        scratch: a folder that exists and is kept; started by root, it is given to the user nobody. A new one, removed
            at the end, unless given.
        discard: remove a given one as well, whatever ends this process.
        environment: its whole environment; empty unless given.
        stdin: its whole input.
        timeout: CPU seconds of all its processes together.
        memory: bytes; of each process, and resident of all of them together.
        wall: wall seconds; ten times `timeout`, and 60 or more, unless given.
        limits: the others.

    Returns:
        What came of it. Whatever the program does is told here and never raised.

    Raises:
        HostFault: the kernel has no Landlock or seccomp, the program cannot be started, or the jailer was lost.
        ValueError: a path or a limit that cannot be meant.

    >>> python = Path("/opt/scorer/bin/python")                # doctest: +SKIP
    >>> found = await run_jailed(                              # doctest: +SKIP
    ...     [python, "-m", "scorer"], readable=python_folders(python), stdin="42\n", timeout=30
    ... )
    >>> found.outcome, found.exit_code, found.stdout           # doctest: +SKIP
    (<ExecutionOutcome.OK: 'ok'>, 0, 'right\n')
    """
    _check_machine()
    from spade_environments.sandbox.jailer import carry_out  # needs Linux

    order = _order(
        _command(argv), readable, environment or {}, timeout=timeout, wall=wall, memory=memory,
        limits=JailLimits() if limits is None else limits,
    )  # fmt: skip
    data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
    return await carry_out(order, data, None if scratch is None else _scratch(scratch), discard=discard)


def python_folders(python: _PathLike) -> tuple[Path, ...]:
    """What a Python interpreter must be able to read: its own installation, and its virtual environment if it has one.

    Args:
        python: path of the interpreter.

    Raises:
        ValueError: there is no such file.
    """
    path = Path.cwd() / python
    if not path.is_file():
        raise ValueError(f"there is no file {path}; give the path of a Python interpreter")
    installation = path.resolve().parent.parent
    prefix = path.parent.parent
    own = (prefix, installation) if (prefix / "pyvenv.cfg").is_file() else (installation,)
    return tuple(folder for folder in own if folder != Path("/"))  # an interpreter in /bin: its library is the system's


def _check_machine() -> None:
    try:
        from spade_environments.inside.jail_entry import missing
    except ImportError as error:
        told = "run_jailed needs Linux, with Landlock and seccomp; run the program on such a machine"
        raise HostFault(FaultKind.SANDBOX_SETUP, "run", told) from error
    lacking = missing()
    if lacking:
        told = f"run_jailed needs what this kernel lacks: {'; '.join(lacking)}. Run it on a machine that has both"
        raise HostFault(FaultKind.SANDBOX_SETUP, "run", told)


def _order(
    command: tuple[str, ...],
    readable: Sequence[_PathLike],
    environment: Mapping[str, str],
    *,
    timeout: float,
    wall: float | None,
    memory: int,
    limits: JailLimits,
) -> Order:
    from spade_environments.sandbox.jailer import Order  # needs Linux

    order = Order(
        command=command,
        environment=_environment(environment),
        readable=_all_readable(readable, command[0]),
        timeout=timeout,
        wall=max(limits.wall_floor, limits.wall_factor * timeout) if wall is None else wall,
        memory=memory,
        processes=limits.processes,
        flood=limits.flood,
        output=limits.output,
        scratch_bytes=limits.scratch,
        scratch_files=limits.scratch_files,
    )
    _check_limits(order)
    return order


def _command(argv: Sequence[_PathLike]) -> tuple[str, ...]:
    if isinstance(argv, str | bytes) or not argv:
        raise ValueError(f"argv is {argv!r}; give a list: the program's path and its arguments")
    command = tuple(os.fspath(part) for part in argv)
    if not Path(command[0]).is_absolute():
        raise ValueError(f"argv[0] is {command[0]!r}; give an absolute path: the program has no PATH to look in")
    if not Path(command[0]).is_file():
        raise ValueError(f"argv[0] is {command[0]!r}, and there is no such file; check the path")
    if any("\0" in part for part in command):
        raise ValueError("an argument holds a null byte; no program can be given one")
    return command


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"the environment holds {name!r}, which no program can be given; leave it out")
    return dict(given)


def _all_readable(paths: Sequence[_PathLike], program: str) -> tuple[str, ...]:
    return (*(str(_readable(path)) for path in paths), str(Path(program).resolve()))


def _readable(path: _PathLike) -> Path:
    found = Path(path).resolve()
    if found == Path("/") or any(found.is_relative_to(closed) for closed in _NEVER):
        raise ValueError(f"{found} shows other processes and devices; list the folders that the program needs")
    if not found.exists():
        raise ValueError(f"there is no {found}, which the program was to read; check the path")
    return found


def _scratch(path: _PathLike) -> Path:
    found = _readable(path)
    if not found.is_dir():
        raise ValueError(f"{found} is no folder; give one for the program to write in, or none")
    return found


def _check_limits(order: Order) -> None:
    for name, value in (("timeout", order.timeout), ("wall", order.wall)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}; give a finite number of seconds above 0")
    if order.memory < _LEAST_MEMORY:
        raise ValueError(f"memory is {order.memory} bytes; give at least {_LEAST_MEMORY} (it is counted in bytes)")
