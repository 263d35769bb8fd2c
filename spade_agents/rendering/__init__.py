"""Chat templates as code: conversations to tokens, sampled tokens to calls."""

from __future__ import annotations

from spade_agents.rendering.calls import Parsed, call_json, parse_call, parse_text, written_text
from spade_agents.rendering.hermes import HermesRenderer, RenderedTranscript, Tokenizer
from spade_agents.rendering.tools import RenderStyle, announce_tools

__all__ = [
    "HermesRenderer",
    "Parsed",
    "RenderStyle",
    "RenderedTranscript",
    "Tokenizer",
    "announce_tools",
    "call_json",
    "parse_call",
    "parse_text",
    "written_text",
]
