"""The chat-completions form: conversations to a request's body, an answer's body to a completion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from spade_agents.messages import Conversation, Message
from spade_agents.policy.endpoint_client import AnswerError
from spade_agents.policy.protocol import Sampling
from spade_agents.rendering import function_schema, parse_call, parse_text
from spade_agents.rendering.calls import broken_call
from spade_agents.trajectory import BrokenCall, Completion, Usage
from spade_environments import ToolCall

__all__ = ["completion_of", "request_body"]


class _Function(msgspec.Struct):
    name: str = ""
    arguments: Any = ""


class _Call(msgspec.Struct):
    function: _Function


class _Said(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None


# A count beyond any real one is a server's nonsense, and must not become a price.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class _Used(msgspec.Struct):
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: _Used | None = None


def request_body(conversation: Conversation, sampling: Sampling, *, model: str, seed: int) -> dict[str, Any]:
    """The body of a chat-completions request; `top_k` stands in it only where it is set, as not all servers know it."""
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(conversation.messages),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": seed % 2**31,
    }
    if sampling.top_k > 0:
        body["top_k"] = sampling.top_k
    if conversation.known_tools:
        body["tools"] = [function_schema(tool) for tool in conversation.known_tools]
    return body


def completion_of(data: bytes, sampling: Sampling) -> Completion:
    """The completion in an answer's body; calls that cannot be read are broken ones, never an error.

    Raises:
        AnswerError: no JSON, or not of the chat-completions form.
    """
    if not data.strip():
        raise AnswerError("an empty body")
    try:
        answer = msgspec.json.decode(data, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AnswerError(f"no chat completion ({error}): {data[:80]!r}") from error
    if not answer.choices:
        raise AnswerError("a chat completion without a choice")
    choice = answer.choices[0]
    truncated = choice.finish_reason == "length"
    said = choice.message
    # A server without a tool parser leaves the calls in the text.
    parsed = parse_text(said.content or "", truncated=truncated)
    calls, broken = _read_calls(said.tool_calls, truncated=truncated) if said.tool_calls else parsed[2:]
    used = answer.usage or _Used()
    finish: Literal["stop", "calls"] = "calls" if calls or broken else "stop"
    return Completion(
        text=parsed.text,
        thinking=said.reasoning_content or said.reasoning or parsed.thinking,
        calls=calls,
        broken=broken,
        finish="length" if truncated else finish,
        temperature=sampling.temperature,
        usage=Usage(prompt_tokens=used.prompt_tokens, completion_tokens=used.completion_tokens),
    )


def _read_calls(entries: Sequence[_Call], *, truncated: bool) -> tuple[tuple[ToolCall, ...], tuple[BrokenCall, ...]]:
    calls: list[ToolCall] = []
    broken: list[BrokenCall] = []
    for index, entry in enumerate(entries):
        found = _read_call(entry.function, index=index, cut=truncated and index == len(entries) - 1)
        if isinstance(found, BrokenCall):
            broken.append(found)
        else:
            calls.append(found)
    return tuple(calls), tuple(broken)


def _read_call(function: _Function, *, index: int, cut: bool) -> ToolCall | BrokenCall:
    """One call; its arguments come as text, and an empty text is a call without arguments."""
    arguments = function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    found = parse_call(f'{{"name": {json.dumps(function.name)}, "arguments": {text.strip() or "{}"}}}', index=index)
    if cut and isinstance(found, BrokenCall) and found.kind == "not_json":
        return broken_call("truncated", "the call was cut off by the length limit", text)
    return found


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages with a call id that no other message uses; a result that answers no call is told by the user."""
    told: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for number, message in enumerate(messages):
        if message.role == "assistant":
            names = {call.id: f"call_{number}_{index}" for index, call in enumerate(message.calls)}
            told.append(_assistant(message, number))
        elif message.role == "tool" and message.call_id in names:
            told.append({"role": "tool", "tool_call_id": names[message.call_id], "content": message.content})
        else:
            told.append({"role": "user" if message.role == "tool" else message.role, "content": message.content})
    return told


def _assistant(message: Message, number: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.calls:
        entry["tool_calls"] = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)},
            }
            for index, call in enumerate(message.calls)
        ]
    return entry
