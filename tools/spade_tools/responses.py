"""Responses of the HTTP server: JSON, refusals in words, and refusals in the protocol's own form."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

__all__ = ["NO_EPISODE", "error_response", "json_response", "protocol_error"]

NO_EPISODE = "no live episode is here; it was ended, reaped, or never was"
_INVALID_REQUEST = -32600
_encoder = msgspec.json.Encoder()


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """A response with a JSON body."""
    return Response(_encoder.encode(value), status, headers, media_type="application/json")


def error_response(status: int, told: str, **headers: str) -> Response:
    """A refusal, in words."""
    return json_response({"error": told}, status, **headers)


def protocol_error(status: int, told: str) -> Response:
    """A refusal that an MCP client understands."""
    headers = {"Retry-After": "1"} if status == 429 else {}
    error = {"code": _INVALID_REQUEST, "message": told}
    return json_response({"jsonrpc": "2.0", "id": None, "error": error}, status, **headers)
