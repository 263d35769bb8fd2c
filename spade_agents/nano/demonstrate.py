"""Noisy demonstrations: an agent that knows the solution plays a generated program and slips now and then.

Slips leave headroom on purpose: a model that imitates them slips as often, and reinforcement can unlearn what more
imitation cannot. With a hint the demonstrator slips less, so that hints are worth something.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

from spade_agents.agent.prompts import opening_messages
from spade_agents.messages import Message
from spade_environments import Observation, ToolCall, ToolSpec
from spade_environments.inside.episode import Episode

__all__ = ["Demonstration", "Slips", "demonstrate"]

Action = dict[str, Any]

_WORD = re.compile(r"[a-z][a-z0-9]{1,15}|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slips:
    """Chances of a slip at one decision, without and with a hint, and of mending one that was answered by an error."""

    plain: float = 0.17
    hinted: float = 0.03
    mend: float = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A whole play; `won` tells whether every goal was met."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    won: bool
    slips: int


def demonstrate(
    source: str, seed: int, rng: random.Random, *, hint: str | None = None, slips: Slips | None = None
) -> Demonstration:
    """Play one instance of a trusted program in this process."""
    slips = slips or Slips()
    episode = Episode(source)
    start = episode.reset(seed)
    tools = tuple(ToolSpec(**spec) for spec in episode.tools if spec["name"] in start["tools"])
    opening = opening_messages(Observation(role="user", text=start["observation"]), hint, style="compact")
    player = _Player(episode, rng, slips.plain if hint is None else slips.hinted, slips.mend, list(opening))
    won = False
    for part in _by_goal(episode.solution()):
        won = player.pursue(part)
        if player.over:
            break
    return Demonstration(messages=tuple(player.messages), tools=tools, won=won, slips=player.slips)


def _by_goal(actions: list[Action]) -> list[list[Action]]:
    parts: list[list[Action]] = [[]]
    for action in actions:
        parts[-1].append(action)
        if "text" in action:
            parts.append([])
    return parts[:-1]


class _Player:
    """Carries out gold with slips; the messages grow as they would in a real play."""

    def __init__(self, episode: Episode, rng: random.Random, rate: float, mend: float, messages: list[Message]) -> None:
        self.episode, self.rng, self.rate, self.mend = episode, rng, rate, mend
        self.messages = messages
        self.slips = 0
        self.over = False
        self.turns = 0

    def pursue(self, part: list[Action]) -> bool:
        """One goal; whether the episode was won with it."""
        *calls, reply = part
        if not calls and reply["text"] and self._slip():
            self._needless()
        last = ""
        skipped: list[Action] = []
        for call in calls:
            if self._slip():
                kind = self.rng.choice(("skip", "skip", "value", "tool", "stop"))
                if kind == "stop":
                    break
                if kind == "skip":
                    skipped.append(call)
                    continue
                last = self._call(self._wrong_value(call) if kind == "value" else self._wrong_tool(call))
                if not last.startswith("Error:") and self.rng.random() < 0.7:
                    continue
                if self.rng.random() > self.mend:
                    break
            last = self._call(call)
            if last.startswith("Error:") and skipped:
                if self.rng.random() > self.mend:
                    break
                for missed in (*skipped, call):
                    last = self._call(missed)
                skipped = []
        return self._reply(reply["text"], last)

    def _slip(self) -> bool:
        slipped = self.rng.random() < self.rate
        self.slips += slipped
        return slipped

    def _call(self, action: Action) -> str:
        self._assistant("", ToolCall(name=action["name"], arguments=action["arguments"], id="call_0"))
        result = self.episode.step(action["name"], action["arguments"], None)
        self.messages.append(Message(role="tool", content=result["observation"], call_id="call_0"))
        return str(result["observation"])

    def _reply(self, gold: str, last: str) -> bool:
        text = gold or "done"
        if self._slip():
            text = self._wrong_reply(gold, last)
        self._assistant(text)
        result = self.episode.step(None, None, text)
        self.over = bool(result["terminated"])
        if not self.over:
            self.messages.append(Message(role="user", content=result["observation"]))
        return bool(result["reward"])

    def _assistant(self, text: str, *calls: ToolCall) -> None:
        self.turns += 1
        self.messages.append(Message(role="assistant", content=text, calls=calls))

    def _needless(self) -> None:
        """Acts where it should have asked or declined."""
        tool = self.rng.choice(self.episode.tools)
        self._call({"name": tool["name"], "arguments": self._guessed(tool)})

    def _wrong_value(self, call: Action) -> Action:
        if not call["arguments"]:
            return self._wrong_tool(call)
        name = self.rng.choice(sorted(call["arguments"]))
        return {**call, "arguments": {**call["arguments"], name: self._other(call["arguments"][name])}}

    def _wrong_tool(self, call: Action) -> Action:
        others = [tool for tool in self.episode.tools if tool["name"] != call["name"]]
        same = [tool for tool in others if set(tool["parameters"]["properties"]) <= set(call["arguments"])]
        if same:
            tool = self.rng.choice(same)
            return {
                "name": tool["name"],
                "arguments": {n: call["arguments"][n] for n in tool["parameters"]["properties"]},
            }
        tool = self.rng.choice(others or self.episode.tools)
        return {"name": tool["name"], "arguments": self._guessed(tool)}

    def _guessed(self, tool: dict[str, Any]) -> dict[str, Any]:
        words = self._seen()
        numbers = [int(word) for word in words if word.isdigit()] or [1]
        names = [word for word in words if not word.isdigit()] or ["one"]
        return {
            name: self.rng.choice(numbers) if schema.get("type") == "integer" else self.rng.choice(names)
            for name, schema in tool["parameters"]["properties"].items()
        }

    def _other(self, value: Any) -> Any:
        if isinstance(value, int):
            return max(0, value + self.rng.choice((-10, -1, 1, 1, 10)))
        others = [word for word in self._seen() if word != value and not word.isdigit()]
        return self.rng.choice(others) if others else f"{value}s"

    def _wrong_reply(self, gold: str, last: str) -> str:
        if not gold:
            return "Which one?" if self.rng.random() < 0.5 else "I cannot do that."
        if gold.isdigit():
            return str(self._other(int(gold))) if self.rng.random() < 0.5 else "done"
        return str(self._other(gold)) if gold in last else "done"

    def _seen(self) -> list[str]:
        """Words of the last request and results: what a careless agent might take up."""
        recent = [message.content for message in self.messages[-3:] if message.role != "assistant"]
        return _WORD.findall(" ".join(recent)) or ["one"]
