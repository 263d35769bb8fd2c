"""A program's standard streams as files in memory: input that cannot be changed, output that the kernel caps."""

from __future__ import annotations

import fcntl
import io
import os
from typing import NamedTuple, Self

from spade_environments.sandbox.execution import Execution, ExecutionOutcome

__all__ = ["Streams"]

_FIXED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class _Kept(NamedTuple):
    text: str
    written: int


class Streams:
    """Descriptors 0 to 2 of one program.

    Files rather than pipes: nobody has to feed or drain them while the program runs, a flood is stopped by its own
    file-size limit at no cost to the host, and `os.fstat(0).st_size` answers what programs that read fast expect.
    """

    def __init__(self, stdin: bytes) -> None:
        self._files: list[io.FileIO] = []
        try:
            source = self._make("stdin", os.MFD_ALLOW_SEALING)
            _write_all(source, stdin)
            source.seek(0)
            fcntl.fcntl(source, fcntl.F_ADD_SEALS, _FIXED)
            self._make("stdout")
            self._make("stderr")
        except BaseException:
            self.close()
            raise

    def copies(self) -> list[io.FileIO]:
        """The three descriptors once more, for the program; the caller closes them."""
        return [os.fdopen(os.dup(file.fileno()), "r+b", buffering=0) for file in self._files]

    def execution(
        self,
        *,
        outcome: ExecutionOutcome,
        exit_code: int | None,
        error: str,
        limit: int,
        cpu_seconds: float,
        wall_seconds: float,
    ) -> Execution:
        """What a program that has ended left here; at most `limit` bytes of each stream."""
        out, err = (_read_start(file, limit) for file in self._files[1:])
        return Execution(
            outcome=outcome,
            exit_code=exit_code,
            stdout=out.text,
            stderr=err.text,
            stdout_bytes=out.written,
            stderr_bytes=err.written,
            truncated=max(out.written, err.written) > limit or outcome is ExecutionOutcome.OUTPUT,
            error=error,
            cpu_seconds=cpu_seconds,
            wall_seconds=wall_seconds,
        )

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, name: str, flags: int = 0) -> io.FileIO:
        file = os.fdopen(os.memfd_create(name, os.MFD_CLOEXEC | flags), "r+b", buffering=0)
        self._files.append(file)
        return file


def _write_all(file: io.FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _read_start(file: io.FileIO, limit: int) -> _Kept:
    written = os.fstat(file.fileno()).st_size
    return _Kept(os.pread(file.fileno(), min(written, limit), 0).decode("utf-8", "replace"), written)
