"""Reading an assistant message: text, thinking, function calls, and calls that are broken, by kind; never raises."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from spade_agents.messages import Message
from spade_agents.rendering.tags import CALL, CALL_END, OPTIONAL_TAGS, THINK, THINK_END, Tag, split_at_tags
from spade_agents.rendering.tools import to_json
from spade_agents.trajectory import BrokenCall
from spade_environments import ToolCall

__all__ = ["Parsed", "broken_call", "call_json", "parse_call", "parse_pieces", "parse_text", "written_text"]

_SHOWN = 80
_SEVERAL = "several calls stand where one can; give each its own, one after the other"


class Parsed(NamedTuple):
    """What one assistant message holds."""

    text: str
    thinking: str
    calls: tuple[ToolCall, ...]
    broken: tuple[BrokenCall, ...]


def call_json(call: ToolCall) -> str:
    """The JSON of a call, as it stands between the tags."""
    return to_json({"name": call.name, "arguments": call.arguments})


def written_text(message: Message) -> str:
    """An assistant message as the raw text that a model writes for it: text, then one tagged block a call."""
    blocks = [f"{CALL}\n{call_json(call)}\n{CALL_END}" for call in message.calls]
    return "\n".join([message.content, *blocks] if message.content else blocks)


def parse_text(text: str, *, truncated: bool = False) -> Parsed:
    """Read an assistant message given as raw text, its tags spelled; never raises."""
    return parse_pieces(split_at_tags(text, OPTIONAL_TAGS), truncated=truncated)


def parse_pieces(
    pieces: Iterable[str],
    *,
    truncated: bool,
    is_thinking: bool = False,
    read: Callable[..., ToolCall | BrokenCall] | None = None,
) -> Parsed:
    """Read an assistant message given as text and `Tag`s in order.

    Args:
        pieces: see `spade_agents.rendering.tags`.
        truncated: whether the message was cut by length: an open call is then of kind `truncated`.
        is_thinking: whether the prompt has opened a thought already.
        read: takes the text between call tags and `index`; by default `parse_call`.
    """
    read_call = read or parse_call
    text: list[str] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    broken: list[BrokenCall] = []
    place = thinking if is_thinking else text
    body: list[str] = []

    def close(fault: BrokenCall | None = None) -> None:
        found = fault or read_call("".join(body), index=len(calls) + len(broken))
        if isinstance(found, BrokenCall):
            broken.append(found)
        else:
            calls.append(found)
        body.clear()

    for piece in pieces:
        tag = piece if isinstance(piece, Tag) else None
        if tag == CALL and place is not thinking:
            if place is body:
                close(_unclosed("".join(body)))
            place = body
        elif tag == CALL_END and place is body:
            close()
            place = text
        elif tag == THINK and place is text:
            place = thinking
        elif tag == THINK_END and place is not body:
            # A template may have written the opening tag into the prompt: what came before was thinking too.
            if place is text and not calls and not broken:
                thinking += text
                text.clear()
            place = text
        else:
            place.append(piece)
    if place is body:
        close(_cut("".join(body)) if truncated else _unclosed("".join(body)))
    return Parsed("".join(text).strip(), "".join(thinking).strip(), tuple(calls), tuple(broken))


def parse_call(body: str, *, index: int = 0, arguments_key: str = "arguments") -> ToolCall | BrokenCall:
    """One call from its JSON text, or what is wrong with it; its id is `call_<index>`."""
    try:
        value = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_unique)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and body[error.pos :].lstrip(" \t\r\n;,").startswith("{"):
            return broken_call("several_calls", _SEVERAL, body)
        return broken_call("not_json", f"the call is not JSON ({error.msg} at character {error.pos})", body)
    except _DuplicateKeyError as error:
        return broken_call("bad_call", f"the call names {str(error)!a} twice", body)
    except (ValueError, RecursionError) as error:
        return broken_call("not_json", f"the call is not JSON that can be read ({error})", body)
    return _checked(value, body, index, arguments_key)


class _DuplicateKeyError(Exception):
    """A key that stands twice in one object."""


def _checked(value: Any, body: str, index: int, arguments_key: str) -> ToolCall | BrokenCall:
    if isinstance(value, list) and len(value) > 1:
        return broken_call("several_calls", _SEVERAL, body)
    if not isinstance(value, dict) or set(value) != {"name", arguments_key}:
        return broken_call("bad_call", f'a call is {{"name": ..., "{arguments_key}": {{...}}}} and nothing else', body)
    name, arguments = value["name"], value[arguments_key]
    if not isinstance(name, str) or not name:
        return broken_call("bad_call", "the call's name is not a string", body)
    if isinstance(arguments, str) and _holds_object(arguments):
        return broken_call("double_encoded", "the arguments are a string that holds JSON; give the object itself", body)
    if not isinstance(arguments, dict):
        return broken_call("bad_call", "the call's arguments are not an object", body)
    return ToolCall(name=name, arguments=arguments, id=f"call_{index}")


def _holds_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(key)
        found[key] = value
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _unclosed(body: str) -> BrokenCall:
    return broken_call("bad_call", "the call has no </tool_call>", body)


def _cut(body: str) -> BrokenCall:
    return broken_call("truncated", "the call was cut off by the length limit", body)


BrokenKind = Literal["not_json", "bad_call", "truncated", "double_encoded", "several_calls"]


def broken_call(kind: BrokenKind, message: str, body: str) -> BrokenCall:
    """A broken call whose message also shows the beginning of what was written."""
    shown = body.strip()
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    return BrokenCall(kind=kind, message=f"{message}: {shown}" if shown else message)
