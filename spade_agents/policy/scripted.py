"""ScriptedPolicy: plays without a model; gold, silent, random, from a file or from a function."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from spade_agents.errors import ContextExhaustedError, InfrastructureError, PolicyError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import PolicyInfo, Sampling
from spade_agents.rendering import Renderer, RenderStyle, parse_text, written_text
from spade_agents.trajectory import Completion, Usage
from spade_environments import Action, ToolCall, ToolSpec

__all__ = ["Respond", "ScriptedPolicy"]

Respond = Callable[[Conversation, random.Random], Message | str]
"""Continues a conversation: an assistant Message, or raw text with its tags spelled (and so perhaps broken)."""


class ScriptedPolicy:
    """A policy whose messages come from a function of the conversation.

    Args:
        respond: writes the next assistant message; its `random.Random` is seeded by the completion's seed alone.
        name: shown in `info`.
        renderer: where given, completions carry real token ids and made-up log-probabilities, both deterministic, so
            that everything behind a policy, training included, runs without a model.
        context_length: tokens; only tested with a renderer.
    """

    def __init__(
        self,
        respond: Respond,
        *,
        name: str = "scripted",
        renderer: Renderer | None = None,
        context_length: int = 32_768,
    ) -> None:
        self.info = PolicyInfo(
            name=name, context_length=context_length, has_tokens=renderer is not None, backend="script"
        )
        self.renderer = renderer
        self._respond: Respond | None = respond

    @classmethod
    def silent(cls, *, renderer: Renderer | None = None) -> Self:
        """Hands every turn back with an empty reply."""
        return cls(lambda _conversation, _random: "", name="scripted:silent", renderer=renderer)

    @classmethod
    def random(cls, *, renderer: Renderer | None = None) -> Self:
        """Calls a random tool with arguments drawn from its schema and from words already seen; sometimes replies."""
        return cls(_random_message, name="scripted:random", renderer=renderer)

    @classmethod
    def gold(cls, actions: Sequence[Action] | None = None, *, renderer: Renderer | None = None) -> Self:
        """Plays the actions of `solution()`, one a message, and is silent after the last.

        Without `actions` it `needs_solution`: `play_group` hands it the actions of each instance by `with_solution`.
        """
        policy = cls(_silent, name="scripted:gold", renderer=renderer)
        policy._respond = None if actions is None else _replaying([_message(action) for action in actions])
        return policy

    @classmethod
    def from_file(cls, path: Path, *, renderer: Renderer | None = None) -> Self:
        """Plays a JSONL file: its n-th line is the n-th assistant message of every conversation.

        A line is `{"text": ..., "calls": [{"name": ..., "arguments": {...}}]}`, either key optional.

        Raises:
            UsageError: no such file, or a line of another form.
        """
        if not path.is_file():
            raise UsageError(f"no file {path}; wanted a JSONL file with one assistant message a line")
        lines = enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        messages = [_read_line(line, where=f"{path}:{number}") for number, line in lines if line.strip()]
        return cls(_replaying(messages), name=f"scripted:{path.name}", renderer=renderer)

    @property
    def style(self) -> RenderStyle:
        """Of the renderer; `full` without one."""
        return self.renderer.style if self.renderer else "full"

    @property
    def needs_solution(self) -> bool:
        """Whether it can only play once `with_solution` gave it an instance's gold actions."""
        return self._respond is None

    def with_solution(self, actions: Sequence[Action]) -> ScriptedPolicy:
        """The gold policy of one instance."""
        return type(self).gold(actions, renderer=self.renderer)

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Take over a weight version; a script has no weights."""
        self.info = replace(self.info, weight_version=version)

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        if self._respond is None:
            raise PolicyError(
                "scripted:gold has no solution to play; play_group and with_solution give it that of an instance"
            )
        await asyncio.sleep(0)
        if deadline is not None and time.monotonic() > deadline:
            raise InfrastructureError("the deadline passed before the scripted policy answered")
        answer = self._respond(conversation, random.Random(seed))
        text = written_text(answer) if isinstance(answer, Message) else answer
        if self.renderer is None:
            parsed = parse_text(text)
            return Completion(
                text=parsed.text,
                thinking=parsed.thinking,
                calls=parsed.calls,
                broken=parsed.broken,
                finish="calls" if parsed.calls or parsed.broken else "stop",
                temperature=sampling.temperature,
                weight_version=self.info.weight_version,
            )
        return self._with_tokens(self.renderer, conversation, text, sampling, seed)

    def _with_tokens(
        self, renderer: Renderer, conversation: Conversation, text: str, sampling: Sampling, seed: int
    ) -> Completion:
        prompt = renderer.render_prompt(conversation)
        if len(prompt) >= self.info.context_length:
            raise ContextExhaustedError(f"the prompt has {len(prompt)} tokens; context {self.info.context_length}")
        written = renderer.render_written(text)
        room = min(sampling.max_tokens, self.info.context_length - len(prompt))
        ids, truncated = written[:room], len(written) > room
        parsed = renderer.parse(ids, truncated=truncated, tools=conversation.known_tools)
        noise = random.Random(f"log-probabilities of {seed}")
        finish: Literal["stop", "calls", "length"] = "calls" if parsed.calls or parsed.broken else "stop"
        return Completion(
            text=parsed.text,
            thinking=parsed.thinking,
            calls=parsed.calls,
            broken=parsed.broken,
            finish="length" if truncated else finish,
            prompt_ids=tuple(prompt),
            token_ids=tuple(ids),
            logprobs=tuple(-noise.random() for _ in ids),
            temperature=sampling.temperature,
            weight_version=self.info.weight_version,
            usage=Usage(prompt_tokens=len(prompt), completion_tokens=len(ids)),
        )


def _silent(_conversation: Conversation, _random: random.Random) -> str:
    return ""


def _message(action: Action) -> Message:
    if isinstance(action, ToolCall):
        return Message(role="assistant", content="", calls=(action,))
    return Message(role="assistant", content=action.text)


def _replaying(messages: Sequence[Message]) -> Respond:
    def respond(conversation: Conversation, _random: random.Random) -> Message | str:
        spoken = sum(message.role == "assistant" for message in conversation.messages)
        return messages[spoken] if spoken < len(messages) else ""

    return respond


def _read_line(line: str, *, where: str) -> Message:
    try:
        fields = json.loads(line)
        calls = tuple(ToolCall(name=c["name"], arguments=c["arguments"]) for c in fields.get("calls", ()))
        return Message(role="assistant", content=str(fields.get("text", "")), calls=calls)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f'{where}: wanted {{"text": ..., "calls": [{{"name", "arguments"}}]}}, found {line[:80]!r}'
        ) from error


def _random_message(conversation: Conversation, source: random.Random) -> Message:
    words = [w for m in conversation.messages for w in re.findall(r"[\w.-]+", m.content)] or ["ok"]
    if not conversation.tools or source.random() < 0.2:
        return Message(role="assistant", content=source.choice(words))
    tool = source.choice(conversation.tools)
    return Message(
        role="assistant", content="", calls=(ToolCall(name=tool.name, arguments=_draw(tool, words, source)),)
    )


def _draw(tool: ToolSpec, words: Sequence[str], source: random.Random) -> dict[str, Any]:
    properties = tool.parameters.get("properties", {})
    required = set(tool.parameters.get("required", properties))
    return {
        name: _value(schema, words, source)
        for name, schema in properties.items()
        if name in required or source.random() < 0.5
    }


def _value(schema: Mapping[str, Any], words: Sequence[str], source: random.Random) -> Any:
    if "enum" in schema:
        return source.choice(list(schema["enum"]))
    if "anyOf" in schema:
        return _value(source.choice(list(schema["anyOf"])), words, source)
    match schema.get("type"):
        case "integer" | "number":
            numbers = [int(word) for word in words if word.isdecimal()]
            return source.choice([*numbers, source.randrange(10)])
        case "boolean":
            return source.random() < 0.5
        case "array":
            return [_value(schema.get("items", {}), words, source) for _ in range(source.randrange(3))]
        case "object":
            return {}
        case "null":
            return None
        case _:
            return source.choice(list(words))
