"""Chat templates as code: conversations to tokens, sampled tokens to calls."""

from __future__ import annotations

from spade_agents.rendering.calls import Parsed, call_json, parse_call, parse_text, written_text
from spade_agents.rendering.chatml import ChatMLRenderer
from spade_agents.rendering.families import FAMILIES, CheckedRenderer, detect_family, open_renderer
from spade_agents.rendering.hermes import HermesRenderer
from spade_agents.rendering.llama3 import Llama3Renderer
from spade_agents.rendering.qwen35 import Qwen35Renderer
from spade_agents.rendering.renderer import RenderedTranscript, Renderer, Tokenizer
from spade_agents.rendering.template_check import ChatTemplate, Deviation, check_dialogue, check_template
from spade_agents.rendering.thinking import Qwen3ThinkingRenderer
from spade_agents.rendering.tools import RenderStyle, announce_tools, function_schema

__all__ = [
    "FAMILIES",
    "ChatMLRenderer",
    "ChatTemplate",
    "CheckedRenderer",
    "Deviation",
    "HermesRenderer",
    "Llama3Renderer",
    "Parsed",
    "Qwen3ThinkingRenderer",
    "Qwen35Renderer",
    "RenderStyle",
    "RenderedTranscript",
    "Renderer",
    "Tokenizer",
    "announce_tools",
    "call_json",
    "check_dialogue",
    "check_template",
    "detect_family",
    "function_schema",
    "open_renderer",
    "parse_call",
    "parse_text",
    "written_text",
]
