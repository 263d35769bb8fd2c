"""A scripted OpenAI-compatible server on a free port: it answers, or fails in the ways that servers fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

FAULTS = ("hang", "500", "empty", "html", "half")

Answer = Callable[[int, dict[str, Any]], str | dict[str, Any]]
"""From a request's number and body to a fault's name or an answer's message (with `finish_reason` where it matters)."""


class ScriptedServer:
    """What was asked, in order; `url` is where."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.alive = 0
        self.most_alive = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = int(
                    next(x.split(":")[1] for x in head.split("\r\n") if x.lower().startswith("content-length"))
                )
                body = json.loads(await reader.readexactly(length))
                self.alive += 1
                self.most_alive = max(self.most_alive, self.alive)
                self.headers.append(head)
                self.bodies.append(body)
                try:
                    await self._respond(len(self.bodies) - 1, body, writer)
                finally:
                    self.alive -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _respond(self, number: int, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        found = self.answer(number, body)
        await asyncio.sleep(0)
        match found:
            case "hang":
                await asyncio.sleep(3600)
            case "500":
                _write(writer, b"it broke", status="500 Internal Server Error")
            case "429":
                _write(writer, b"slowly", status="429 Too Many Requests", extra="Retry-After: 0.01\r\n")
            case "empty":
                _write(writer, b"")
            case "html":
                _write(writer, b"<html><body>Bad gateway</body></html>", kind="text/html")
            case "half":
                text = json.dumps(_completion({"content": "lost"})).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text[: len(text) // 2])
                await writer.drain()
                raise ConnectionResetError
            case str() as refused:
                status, _, told = refused.partition(" ")
                _write(writer, told.encode(), status=f"{status} Refused")
            case message:
                _write(writer, json.dumps(_completion(message)).encode())
        await writer.drain()


@asynccontextmanager
async def scripted_server(answer: Answer) -> AsyncIterator[ScriptedServer]:
    """The server, listening until the block ends; answers still hanging are dropped then."""
    scripted = ScriptedServer(answer)
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        tasks.add(task)
        try:
            await scripted.serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield scripted
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def calls(*pairs: tuple[str, str]) -> dict[str, Any]:
    """A message of tool calls, each a name and its arguments as text."""
    return {"tool_calls": [{"id": f"x{n}", "function": {"name": a, "arguments": b}} for n, (a, b) in enumerate(pairs)]}


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    fields = dict(message)
    reason = fields.pop("finish_reason", "stop")
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **fields}, "finish_reason": reason}
    return {
        "id": "c",
        "object": "chat.completion",
        "choices": [choice],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3},
    }


def _write(
    writer: asyncio.StreamWriter,
    body: bytes,
    *,
    status: str = "200 OK",
    kind: str = "application/json",
    extra: str = "",
) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
