"""A chat-completions server that answers BFCL's multi-turn entries with their published answers, as fast as it can.

`python benchmarks/bfcl_replay.py DATA CATEGORY` prints its port and serves until it is ended; DATA is bfcl-eval's
`data` folder. An entry is known by its user's messages so far, a step by the number of the assistant's.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MORE = "I have updated some more functions you can choose from. What about now?"
_DOCUMENTS = (
    ("GorillaFileSystem", "gorilla_file_system"), ("MathAPI", "math_api"), ("MessageAPI", "message_api"),
    ("TwitterAPI", "posting_api"), ("TicketAPI", "ticket_api"), ("TradingBot", "trading_bot"),
    ("TravelAPI", "travel_booking"), ("VehicleControlAPI", "vehicle_control"),
)  # fmt: skip


class Replay:
    """Answers by the user's messages."""

    def __init__(self, data: Path, category: str) -> None:
        names: dict[str, dict[str, list[str]]] = {}
        for group, file in _DOCUMENTS:
            for tool in _rows(data / "multi_turn_func_doc" / f"{file}.json"):
                names.setdefault(group, {})[tool["name"]] = list(tool["parameters"]["properties"])
        gold = {row["id"]: row["ground_truth"] for row in _rows(data / "possible_answer" / f"BFCL_v4_{category}.json")}
        self._steps: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for entry in _rows(data / f"BFCL_v4_{category}.json"):
            known = {tool: keys for group in entry["involved_classes"] for tool, keys in names[group].items()}
            said = tuple(
                message["content"]
                for turn in entry["question"]
                for message in turn or [{"content": _MORE, "role": "user"}]
            )
            steps = [
                step
                for turn in gold[entry["id"]]
                for step in (*(_call(call, known) for call in turn), {"content": "Done."})
            ]
            for length in range(1, len(said) + 1):
                self._steps.setdefault(said[:length], steps)

    def answer(self, request: Mapping[str, Any]) -> bytes:
        """A chat completion."""
        messages = request["messages"]
        said = tuple(message["content"] for message in messages if message["role"] == "user")
        step = self._steps[said][sum(message["role"] == "assistant" for message in messages)]
        choice = {"index": 0, "message": {"role": "assistant", "content": None, **step}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        row = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "replay",
            "choices": [choice],
            "usage": usage,
        }
        return json.dumps(row).encode()


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _call(source: str, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    arguments = dict(zip(names[node.func.id], map(ast.literal_eval, node.args), strict=False)) if node.args else {}
    arguments |= {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    function = {"name": node.func.id, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": "call_0", "type": "function", "function": function}]}


async def serve(replay: Replay) -> None:
    """Serve on a free port of this machine."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                request = await reader.readexactly(length)
                body = replay.answer(json.loads(request)) if length else b'{"object": "list", "data": []}'
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Replay(Path(sys.argv[1]), sys.argv[2])))
