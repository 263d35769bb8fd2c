"""A client's connection to an MCP server, held open by a task of its own so that any task may use and close it."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn, Self, TypeVar

import httpx2
import pydantic
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolResult, ListToolsResult

from spade_environments import FaultKind, HostFault
from spade_environments.validation import clean_text

__all__ = ["HeldClient", "McpCommand", "McpTarget", "McpUrl"]

R = TypeVar("R")

# The SDK logs each line of nonsense that a server writes, with a traceback; without a handler of the application's own
# that would go to the terminal. What matters of it is in the fault.
logging.getLogger("mcp").addHandler(logging.NullHandler())

_CLOSE_SECONDS = 10.0
_ERROR_TAIL = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCommand:
    """A server to start as a child process and to talk to over its standard input and output.

    Attributes:
        command: program, found on PATH.
        arguments: of the program.
        variables: of its environment, beyond HOME, PATH and the like; secrets of ours are not passed on.
        folder: to start it in.
    """

    command: str
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpUrl:
    """A server that listens at `url` (streamable HTTP); `headers` go with each request, such as a bearer token."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


McpTarget = McpCommand | McpUrl | Server[Any]
"""Where a server is: behind a command, at an address, or an object in this process."""


class HeldClient:
    """The SDK's client, entered and left by one task; every failure of it is a `HostFault`."""

    def __init__(self, target: McpTarget, *, seconds: float) -> None:
        self._target, self._seconds = target, seconds
        self._errors: IO[str] | None = None
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._fault: HostFault | None = None

    @classmethod
    async def open(cls, target: McpTarget, *, seconds: float) -> Self:
        """Connect within `seconds`.

        Raises:
            HostFault: it cannot be reached.
        """
        held = cls(target, seconds=seconds)
        held._task = asyncio.create_task(held._hold())
        try:
            await held._within(asyncio.shield(held._ready), "load")
        except BaseException:
            await held.aclose()
            raise
        return held

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool; an error of the protocol passes as `MCPError`."""
        return await self._within(self._ready.result().call_tool(name, arguments), "step")

    async def list_tools(self, cursor: str | None, phase: str) -> ListToolsResult:
        """One page of the list."""
        return await self._within(self._ready.result().list_tools(cursor=cursor, cache_mode="bypass"), phase)

    async def fail(self, error: BaseException, phase: str) -> NoReturn:
        """Raise what a broken server means for the play; the connection is of no more use."""
        await asyncio.sleep(0)
        self._fault = self._fault or HostFault(_kind(error), phase, f"the MCP server {self._told(error)}")
        raise self._fault from error

    async def aclose(self) -> None:
        """Hang up; a server that was started is ended, at the latest after ten seconds."""
        self._closing.set()
        if self._task is not None:
            if not self._ready.done():
                self._task.cancel()
            try:
                await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
            finally:
                self._task.cancel()
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # looked at, so that nobody is told of it twice
        if self._errors is not None:
            self._errors.close()

    async def _within(self, answer: Awaitable[R], phase: str) -> R:
        if self._fault is not None:
            _discard(answer)
            raise self._fault
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except MCPError as error:
            if phase != "load":
                raise
            await self.fail(error, phase)
        except HostFault:
            raise
        except Exception as error:  # whatever a foreign server makes the client raise is that server's failure
            await self.fail(error, phase)

    async def _hold(self) -> None:
        try:
            async with self._client() as client:
                self._ready.set_result(client)
                await self._closing.wait()
        except Exception as error:
            if not self._ready.done():
                self._ready.set_exception(error)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        target = self._target
        if isinstance(target, McpCommand):
            self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
            parameters = StdioServerParameters(
                command=target.command, args=list(target.arguments), env=dict(target.variables), cwd=target.folder
            )
            async with Client(stdio_client(parameters, errlog=self._errors), cache=None) as client:
                yield client
        elif isinstance(target, McpUrl):
            async with (
                httpx2.AsyncClient(headers=dict(target.headers), timeout=self._seconds, verify=_certificates()) as http,
                Client(streamable_http_client(target.url, http_client=http), cache=None) as client,
            ):
                yield client
        else:
            async with Client(target, cache=None) as client:
                yield client

    def _told(self, error: BaseException) -> str:
        """What happened, in words, with the last that the server wrote to its standard error."""
        if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT):
            told = f"did not answer within {self._seconds:g} s"
        elif isinstance(error, pydantic.ValidationError):
            told = "answered what the protocol does not know"
        else:
            told = f"failed: {clean_text(str(_innermost(error)))[:200] or type(error).__name__}"
        tail = self._tail()
        return f"{told}; it wrote: {tail}" if tail else told

    def _tail(self) -> str:
        if self._errors is None or self._errors.closed:
            return ""
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - _ERROR_TAIL))
        return clean_text(self._errors.read()).strip()


@functools.cache  # reading the authorities' certificates takes as long as half an episode
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def _kind(error: BaseException) -> FaultKind:
    found = _innermost(error)
    if isinstance(found, TimeoutError) or (isinstance(found, MCPError) and found.code == REQUEST_TIMEOUT):
        return FaultKind.TIMEOUT_WALL
    answered = isinstance(found, MCPError) and found.code != CONNECTION_CLOSED
    return FaultKind.PROTOCOL if answered or isinstance(found, pydantic.ValidationError) else FaultKind.HOST_FAULT


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _discard(answer: Awaitable[Any]) -> None:
    close = getattr(answer, "close", None)
    if close is not None:
        close()
