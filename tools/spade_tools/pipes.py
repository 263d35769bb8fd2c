"""The process's own standard input and output as a pair of MCP streams, on the event loop rather than on threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from mcp.server.stdio import stdio_server

__all__ = ["standard_streams"]

_LINE = 32 * 1024 * 1024
"""Bytes of one message."""
_LAST_WORDS = 5.0
"""Seconds that a client has to read what is left for it at the end."""


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """What `Server.run` reads from and writes to; meanwhile whatever else is printed goes to standard error.

    The SDK waits for each line, and for each answer to be written, in a thread: three changes of thread a call. Pipes
    and sockets, which is what clients start a server with, need none; terminals and files are left to the SDK.
    """
    if not (_is_pipe(0) and _is_pipe(1)):
        async with stdio_server() as streams:
            yield streams
        return
    source, target = os.dup(0), os.dup(1)
    try:
        _divert(0, os.open(os.devnull, os.O_RDONLY))
        _divert(1, os.dup(2))
        lines, answers = await _Lines.of(os.dup(source)), await _Answers.of(os.dup(target))
        async with stdio_server(lines, answers) as streams:  # type: ignore[arg-type]
            yield streams
        await answers.aclose()
    finally:
        for number, kept in ((0, source), (1, target)):
            os.set_blocking(kept, True)
            _divert(number, kept)


class _Lines:
    """Lines of text, as they come."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def of(cls, descriptor: int) -> Self:
        reader = asyncio.StreamReader(limit=_LINE)
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(descriptor, "rb", buffering=0)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return cls(reader)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                continue  # too long: what came of it is dropped, and its end is passed over as the nonsense that it is
            if not line:
                raise StopAsyncIteration
            return line.decode("utf-8", "replace")


class _Answers:
    """Where text is written to; a client that is gone is told by the end of the lines."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    @classmethod
    async def of(cls, descriptor: int) -> Self:
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(descriptor, "wb", buffering=0)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
        )
        return cls(asyncio.StreamWriter(transport, protocol, None, loop))

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def aclose(self) -> None:
        """Write what is left."""
        self._writer.close()
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self._writer.wait_closed()
        except (TimeoutError, ConnectionError):
            self._writer.transport.abort()


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _divert(number: int, descriptor: int) -> None:
    """Let `number` be what `descriptor` is, which is closed."""
    os.dup2(descriptor, number)
    os.close(descriptor)
