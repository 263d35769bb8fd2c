"""The episode child's loop: one framed JSON request in, one framed JSON reply out, until the host hangs up."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any

from . import determinism, plain_json
from .contract import ContractError
from .episode import Episode

__all__ = ["ERROR_LIMIT", "FRAME_LIMIT", "Worker", "answer", "answer_error", "receive", "send", "serve"]

ERROR_LIMIT = 500
FRAME_LIMIT = 4 * 1024 * 1024

_HEADER = 4
_CHUNK = 64 * 1024

# Bound early: designed code may replace these names in its own process, and then only harms its own replies.
_dumps, _scan, _read, _write = plain_json.dumps, json.JSONDecoder().raw_decode, os.read, os.write
_is = isinstance


def serve(channel: int) -> None:
    """Answer requests on the descriptor `channel` until it is closed at the other end."""
    worker = Worker()
    while True:
        frame = receive(channel)
        if frame is None:
            return
        send(channel, answer(worker, frame))


class Worker:
    """The one episode of this process."""

    def __init__(self) -> None:
        self.episode: Episode | None = None

    def load(self, source: str) -> dict[str, Any]:
        determinism.reseed(0)
        self.episode = Episode(source)
        return self.episode.describe()

    def reset(self, seed: int) -> dict[str, Any]:
        determinism.reseed(seed)
        return self._loaded().reset(seed)

    def step(self, name: str | None, arguments: dict[str, Any] | None, text: str | None) -> dict[str, Any]:
        return self._loaded().step(name, arguments, text)

    def solution(self) -> dict[str, Any]:
        return {"actions": self._loaded().solution()}

    def hidden_values(self) -> dict[str, Any]:
        return {"values": self._loaded().hidden_values()}

    def _loaded(self) -> Episode:
        assert self.episode is not None
        return self.episode


def answer(worker: Worker, frame: bytes) -> bytes:
    """The reply to one request, both as JSON."""
    request, _ = _scan(frame.decode())
    reply = _answer(worker, request)
    try:
        return _dumps(reply).encode()
    except BaseException as error:  # a value that is not JSON, or no memory left to write it
        return _dumps({"nonce": request["nonce"], "error": answer_error(error, "reply")}).encode()


def _answer(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    operation, payload = request["op"], request["payload"]
    try:
        return {"nonce": request["nonce"], "ok": getattr(worker, operation)(**payload)}
    except BaseException as error:  # whatever designed code raises ends here, told by name
        return {"nonce": request["nonce"], "error": answer_error(error, operation)}


def answer_error(error: BaseException, operation: str) -> dict[str, str]:
    """An exception of designed code as the fault's kind and a text with the line of the source it came from."""
    loading = operation == "load"
    if _is(error, MemoryError):
        return {"kind": "memory", "text": "out of memory"}
    if _is(error, SystemExit):
        return {"kind": "exit", "text": "the environment's code called exit"}
    if _is(error, ContractError):
        return {"kind": "reject" if loading else "protocol", "text": _told(error)}
    if loading and _is(error, SyntaxError | ImportError):
        return {"kind": "reject", "text": _told(error)}
    return {"kind": "env_error", "text": _told(error)}


def _told(error: BaseException) -> str:
    try:
        line = _last_line(error.__traceback__)
        where = f" (line {line})" if line else ""
        return f"{type(error).__name__}: {error}"[: ERROR_LIMIT - len(where)] + where
    except BaseException:  # an exception whose own __str__ raises
        return "an exception that cannot be shown"


def _last_line(trace: TracebackType | None) -> int:
    """Line of the designed source that was running; 0 if none was. Read from the frames: no file can be opened."""
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "environment.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def receive(channel: int) -> bytes | None:
    """Read one frame; `None` once the host has hung up. The host sends nothing more before it is answered."""
    data, size = b"", _HEADER
    while len(data) < size:
        more = _read(channel, _CHUNK)
        if not more:
            return None
        data += more
        if len(data) >= _HEADER:
            size = _HEADER + int.from_bytes(data[:_HEADER], "big")
        if size > _HEADER + FRAME_LIMIT:
            return None
    return data[_HEADER:]


def send(channel: int, body: bytes) -> None:
    """Write one frame."""
    frame = len(body).to_bytes(4, "big") + body
    while frame:
        frame = frame[_write(channel, frame) :]
