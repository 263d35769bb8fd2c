"""Plays BFCL's multi-turn and agentic entries in a jail. Run as a script by bfcl-eval's interpreter, never imported.

Conversations are the package's own (`BaseHandler.inference`); a handler asks for each completion over a pipe. Each play
is a fork, since the package evaluates the model's calls and keeps environments in globals; its CPU seconds are the
script's argument.

Lines of the channel `main`: `{"play": channel, "category", "id", "snapshot"}`; a line `{"ended": channel, "status"}`
says that a play's process ended otherwise than it should. Lines of a play: `{"messages", "tools"}` (what is new;
`tools` null where unchanged), answered by `{"calls", "ids", "text", "tokens"}`; and last `{"result", "error",
"snapshot"}`.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import sys
import time
import types
from pathlib import Path
from typing import Any

_MEMORY = 4 << 30


def main() -> None:
    """Start plays as they are asked for, until the channel ends."""
    out, asked = os.open("main.out", os.O_WRONLY), os.open("main.in", os.O_RDONLY)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.environ["BFCL_PROJECT_ROOT"] = "."
    player = _Player()
    _tell(out, {"ready": True})
    alive: dict[int, str] = {}
    left = b""
    while True:
        ready, _, _ = select.select([asked], [], [], 0.05 if alive else None)
        for name, status in _ended(alive):
            _tell(out, {"ended": name, "status": status})
        if not ready:
            continue
        data = os.read(asked, 1 << 20)
        if not data:
            return
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            row = json.loads(line)
            player.load(row["category"])
            child = os.fork()
            if child == 0:
                os.close(asked)
                player.play(row)
                os._exit(0)
            alive[child] = row["play"]


def _tell(descriptor: int, row: dict[str, Any]) -> None:
    data = json.dumps(row).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def _ended(alive: dict[int, str]) -> list[tuple[str, int]]:
    """The plays whose process ended with a status."""
    found = []
    while alive:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            break
        name = alive.pop(child)
        if status:
            found.append((name, status))
    return found


class _Player:
    """The package's entries and its handler."""

    def __init__(self) -> None:
        # The handler's module imports a client that is never opened, and that every fork would bear.
        sys.modules["openai"] = client = types.ModuleType("openai")
        vars(client).update(OpenAI=None, RateLimitError=ConnectionError)
        from bfcl_eval import utils
        from bfcl_eval.constants.enums import ModelStyle
        from bfcl_eval.model_handler.api_inference import openai_completion

        self._utils = utils
        self._entries: dict[str, dict[str, Any]] = {}

        class Handler(openai_completion.OpenAICompletionsHandler):  # type: ignore[misc]
            """Its conversation is told piece by piece, and its completions come over the pipe."""

            def __init__(self, told: _Told) -> None:
                # The parent's constructor opens a client; this one has none.
                super(openai_completion.OpenAICompletionsHandler, self).__init__("spade_eval", 0.0, "spade_eval", True)
                self.model_style = ModelStyle.OPENAI_COMPLETIONS
                self._pipe = told

            def _query_FC(self, inference_data: dict[str, Any]) -> tuple[dict[str, Any], float]:  # noqa: N802
                started = time.monotonic()
                answer = self._pipe.ask(inference_data["message"], inference_data["tools"])
                return answer, time.monotonic() - started

            def _parse_query_response_FC(self, api_response: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
                # Without calls it is the text that counts, however a server spells that there are none.
                return {
                    "model_responses": api_response["calls"] or api_response["text"],
                    "model_responses_message_for_chat_history": {"role": "assistant"},
                    "tool_call_ids": api_response["ids"],
                    "input_token": api_response["tokens"][0],
                    "output_token": api_response["tokens"][1],
                }

        self._handler = Handler

    def load(self, category: str) -> None:
        """Read a category once, before the fork."""
        if category not in self._entries:
            self._entries[category] = {entry["id"]: entry for entry in self._utils.load_dataset_entry(category)}
            gc.freeze()

    def play(self, row: dict[str, Any]) -> None:
        """One entry from first message to last; what the package raises becomes the entry's result, as it has it."""
        out, heard = os.open(f"{row['play']}.out", os.O_WRONLY), os.open(f"{row['play']}.in", os.O_RDONLY)
        seconds = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        entry = self._entries[row["category"]][row["id"]]
        memory = self._memory(entry, row) if self._utils.is_memory(entry["id"]) else None
        try:
            result, error = self._handler(_Told(out, heard)).inference(entry, False, True)[0], ""
        except Exception as fault:
            result, error = f"Error during inference: {fault}", f"{type(fault).__name__}: {fault}"
        saved = memory.read_text() if memory is not None and memory.is_file() else None
        _tell(out, {"result": result, "error": error, "snapshot": saved})

    def _memory(self, entry: dict[str, Any], row: dict[str, Any]) -> Path:
        """Give an entry a folder of its own, with the memory that it begins with; returns the memory's file."""
        folder = Path(f"memory-{row['play']}")
        self._utils.populate_initial_settings_for_memory_test_cases([entry], folder)
        place: Path = folder / self._utils.get_directory_structure_by_id(entry["id"]) / "memory_snapshot"
        place.mkdir(parents=True)
        file = place / f"{entry['scenario']}_final.json"
        if row["snapshot"] is not None:
            file.write_text(row["snapshot"])
        return file


class _Told:
    """A play's pipe, and how much of the conversation the other side knows."""

    def __init__(self, out: int, heard: int) -> None:
        self._out = out
        self._heard = os.fdopen(heard, encoding="utf-8")
        self._messages = 0
        self._tools: object = None

    def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """Tell what is new and wait for the completion; ends the process where nobody answers any more."""
        fresh = None if tools is self._tools else [tool["function"] for tool in tools]
        _tell(self._out, {"messages": messages[self._messages :], "tools": fresh})
        self._messages, self._tools = len(messages) + 1, tools
        line = self._heard.readline()
        if not line:
            os._exit(0)
        answer: dict[str, Any] = json.loads(line)
        return answer


if __name__ == "__main__":
    main()
