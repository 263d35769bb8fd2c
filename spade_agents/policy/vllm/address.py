"""Where a vLLM server listens."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Address"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A base url, and for a server of our own the Unix socket on which alone it listens."""

    url: str
    socket: str | None = None

    def __str__(self) -> str:
        return f"the vLLM server at {self.socket or self.url}"
