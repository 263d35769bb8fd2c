"""A rehearsal in the zygote: harmless episodes, so that what a first time costs is paid once and not in each child.

The interpreter rewrites code that it has run a few times, and writes to whatever it looks at; after the fork each such
write copies a page. What was rehearsed is shared by all children.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from . import schema, worker

__all__ = ["rehearse"]

_TIMES = 12
_TEXT = '''
from spade_environments import TextEnv


class Counting(TextEnv):
    """Say the number that comes next."""

    hidden = ("number",)

    def reset(self, seed):
        self.number = self.rng.randrange(100)
        return f"Count on from {self.number}.", {"number": self.number}

    def step(self, action):
        self.number += 1
        done = action.strip() == str(self.number)
        return f"It was {self.number}.", float(done), done, False, {"right": done}

    def solution(self):
        return [str(self.number + 1)]
'''
_TOOLS = '''
from spade_environments import Call, Goal, ToolEnv, ToolError, tool


class Shelf(ToolEnv):
    """Jars that can be read and opened."""

    hidden = ("state",)

    def setup(self):
        self.names = [f"J{n:02d}" for n in self.rng.sample(range(100), 3)]
        self.state = {name: {"weight": self.rng.randint(1, 9), "open": False} for name in self.names}

    @tool
    def read_jar(self, name: str, unit: str = "g") -> dict:
        """Read a jar's label."""
        if name not in self.state:
            raise ToolError(f"no jar {name}")
        return {"weight": self.state[name]["weight"], "unit": unit}

    @tool
    def open_jar(self, name: str, turns: int = 1, tools: list[str] | None = None) -> str:
        """Open a jar."""
        self.state[name]["open"] = True
        return "open"

    def goals(self):
        first, second = self.names[:2]
        return [
            Goal("replied", f"What does {first} weigh?", value=self.state[first]["weight"]),
            Goal("state", f"Open {second}.", lambda state, calls, reply: state[second]["open"]),
        ]

    def solution(self):
        first, second = self.names[:2]
        return [[Call("read_jar", name=first), str(self.state[first]["weight"])], [Call("open_jar", name=second)]]
'''


def rehearse() -> None:
    """Play both environments a few times, the way a child is asked to; nothing of them is left."""
    for _ in range(_TIMES):
        for source in (_TEXT, _TOOLS):
            _play(source)
    del sys.modules["designed_environment"]
    schema.forget_methods()


def _play(source: str) -> None:
    player = worker.Worker()
    _ask(player, "load", source=source)
    _ask(player, "reset", seed=0)
    _ask(player, "hidden_values")
    for action in _ask(player, "solution")["actions"]:
        _ask(player, "step", **{"name": None, "arguments": None, "text": None, **action})


def _ask(player: worker.Worker, operation: str, **payload: Any) -> dict[str, Any]:
    frame = json.dumps({"nonce": "0" * 16, "op": operation, "payload": payload}).encode()
    reply: dict[str, Any] = json.loads(worker.answer(player, frame))
    if "ok" not in reply:
        raise RuntimeError(f"the rehearsal failed in {operation}: {reply['error']['text']}")
    found: dict[str, Any] = reply["ok"]
    return found
