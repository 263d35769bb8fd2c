"""The wire to a child: length-prefixed JSON frames, decoded into typed structs that refuse whatever is not expected."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

__all__ = [
    "ActionReply",
    "Described",
    "Failed",
    "HiddenReply",
    "ResetReply",
    "SolutionReply",
    "StepReply",
    "ToolReply",
    "WireError",
    "checked_schema",
    "decode",
    "decode_info",
    "encode",
]

R = TypeVar("R")
_INFO_LIMIT = 4096
_SCHEMA_LIMIT = 16 * 1024
_HEADER = 4


class WireError(ValueError):
    """A reply that the protocol does not allow."""


class _Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of everything a child may send."""


class _Schema(_Strict, frozen=True, rename={"any_of": "anyOf", "additional": "additionalProperties"}):
    """The JSON Schema that tool signatures give, and no more: no pattern, no reference, no format."""

    type: Literal["object", "string", "integer", "number", "boolean", "array", "null"] | None = None
    properties: dict[str, _Schema] | None = None
    required: list[str] | None = None
    additional: bool | _Schema | None = None
    items: _Schema | None = None
    enum: list[str | int | float | bool | None] | None = None
    any_of: list[_Schema] | None = None


class ToolReply(_Strict, frozen=True):
    """A tool of the environment; `parameters` is a JSON Schema, still as text (see `checked_schema`)."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
    description: Annotated[str, Meta(max_length=2000)]
    parameters: msgspec.Raw


class Described(_Strict, frozen=True):
    """What a loaded environment declares."""

    base: Literal["text", "tool"]
    class_name: str
    tools: Annotated[list[ToolReply], Meta(min_length=1, max_length=64)]
    max_turns: Annotated[int, Meta(ge=1, le=25)]
    observability: Literal["full", "partial"]
    hidden: Annotated[list[str], Meta(max_length=64)]


class ResetReply(_Strict, frozen=True):
    """The first observation, and the tools that are not locked."""

    observation: str
    info: msgspec.Raw
    tools: list[str]


class StepReply(_Strict, frozen=True):
    """One step's five values, and the tools that it unlocked."""

    observation: str
    role: Literal["tool", "user"]
    reward: Annotated[float, Meta(ge=0.0, le=1.0)]
    terminated: bool
    truncated: bool
    info: msgspec.Raw
    unlocked: list[str]


class ActionReply(_Strict, frozen=True):
    """One gold action: a call (`name`, `arguments`) or a reply (`text`)."""

    name: str | None = None
    arguments: dict[str, Any] | None = None
    text: str | None = None


class SolutionReply(_Strict, frozen=True):
    """The gold actions."""

    actions: Annotated[list[ActionReply], Meta(max_length=1000)]


class HiddenReply(_Strict, frozen=True):
    """Values that must not show at the start, by dotted path."""

    values: dict[str, str]


class Failed(_Strict, frozen=True):
    """What the designed code did instead of answering."""

    kind: Literal["reject", "memory", "exit", "protocol", "env_error"]
    text: str


class _Envelope(_Strict, Generic[R], frozen=True):
    nonce: str
    ok: R | None = None
    error: Failed | None = None


_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {
    reply: msgspec.json.Decoder(_Envelope[reply])  # type: ignore[valid-type]
    for reply in (Described, ResetReply, StepReply, SolutionReply, HiddenReply)
}
_SCHEMA_DECODER = msgspec.json.Decoder(_Schema)
_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


def encode(nonce: str, operation: str, payload: dict[str, Any]) -> bytes:
    """One request as a frame."""
    body = _encoder.encode({"nonce": nonce, "op": operation, "payload": payload})
    return len(body).to_bytes(_HEADER, "big") + body


def decode(frame: bytes, nonce: str, reply: type[R]) -> R | Failed:
    """The body of one frame as the reply that was asked for, or as the child's failure.

    Raises:
        WireError: not JSON, a wrong nonce, an unknown or missing field, a value out of its type or range.
    """
    try:
        envelope = _DECODERS[reply].decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"the reply cannot be read: {error}") from error
    if envelope.nonce != nonce:
        raise WireError("the reply does not answer the request that was sent")
    found = envelope.ok if envelope.error is None else envelope.error
    if found is None or (envelope.ok is not None and envelope.error is not None):
        raise WireError("the reply has neither a result nor an error, or both")
    return found  # type: ignore[no-any-return]


def decode_info(raw: msgspec.Raw) -> dict[str, Any]:
    """An `info` dict of at most 4 KiB.

    Raises:
        WireError: it is larger, or not an object.
    """
    text = bytes(raw)
    if text == b"{}":
        return {}
    if len(text) > _INFO_LIMIT:
        raise WireError(f"info is {len(text)} bytes; at most {_INFO_LIMIT}")
    try:
        return _OBJECT_DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"info cannot be read: {error}") from error


def checked_schema(text: bytes, name: str) -> dict[str, Any]:
    """The JSON Schema of the parameters of the tool `name`.

    Raises:
        WireError: a keyword that no tool signature gives, or a schema of more than 16 KiB.
    """
    if len(text) > _SCHEMA_LIMIT:
        raise WireError(f"the schema of tool {name} is larger than {_SCHEMA_LIMIT} bytes")
    try:
        found = _SCHEMA_DECODER.decode(text)
        if found.type != "object" or found.properties is None:
            raise WireError(f"the schema of tool {name} has no object at its root")
        return _OBJECT_DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"the schema of tool {name} cannot be read: {error}") from error
