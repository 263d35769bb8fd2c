"""Text files as they come, packed by gzip or Zstandard or not at all."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import IO, Any, BinaryIO

import zstandard

from spade_agents.errors import UsageError
from spade_agents.files import plain_file

__all__ = ["DAMAGED", "PACKED", "open_text"]

PACKED = (".gz", ".zst")
DAMAGED = (ValueError, EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)
"""What reading text out of a file that is something else, or was cut short, comes to."""

_ENCODING = "utf-8-sig"
"""UTF-8, with or without the mark that some programs put before it."""
_READ = 1 << 17


def open_text(path: Path) -> IO[str]:
    """Open a file for reading its text: UTF-8, packed where its name ends so.

    Raises:
        UsageError: it cannot be opened, or would be read without an end.
    """
    plain_file(path)
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding=_ENCODING)
        if path.suffix == ".zst":
            return io.TextIOWrapper(io.BufferedReader(_Unpacked(path.open("rb"))), encoding=_ENCODING)
        return path.open(encoding=_ENCODING)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


class _Unpacked(io.RawIOBase):
    """The bytes of a file packed by Zstandard; one that was cut short ends in `EOFError` and not in silence."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed, self._left = packed, b""
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and self._feed():
            pass
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _feed(self) -> bool:
        """Unpack some more; False at the end."""
        ended = self._frame is not None and self._frame.eof
        data = (self._frame.unused_data if self._frame is not None and ended else b"") or self._packed.read(_READ)
        if not data:
            if self._frame is not None and not ended:
                raise EOFError("the packed file ended before its end was marked")
            return False
        if self._frame is None or ended:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._left = self._frame.decompress(data)
        return True
