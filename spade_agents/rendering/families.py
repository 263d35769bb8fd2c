"""The template families: which one a chat template belongs to, and the renderer that agrees with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from spade_agents.errors import CheckpointError
from spade_agents.rendering.chatml import ChatMLRenderer
from spade_agents.rendering.hermes import HermesRenderer
from spade_agents.rendering.llama3 import Llama3Renderer
from spade_agents.rendering.qwen35 import Qwen35Renderer
from spade_agents.rendering.renderer import Prefill, Renderer, Tokenizer
from spade_agents.rendering.template_check import ChatTemplate, Deviation, check_template
from spade_agents.rendering.thinking import Qwen3ThinkingRenderer
from spade_agents.rendering.tools import RenderStyle

__all__ = ["FAMILIES", "CheckedRenderer", "detect_family", "open_renderer"]

FAMILIES: Final[dict[str, type[Renderer]]] = {
    renderer.family: renderer
    for renderer in (HermesRenderer, Qwen3ThinkingRenderer, Qwen35Renderer, ChatMLRenderer, Llama3Renderer)
}

_PREFILLS: Final[dict[str, Prefill]] = {"": "none", "<think>\n": "open", "<think>\n\n</think>\n\n": "closed"}


class CheckedRenderer(NamedTuple):
    """A renderer that was held against its model's template, and how it departs from it."""

    renderer: Renderer
    deviation: Deviation


def detect_family(source: str) -> str:
    """The family of a chat template, by the marks in its text.

    Raises:
        CheckpointError: none of ours.
    """
    if "<|start_header_id|>" in source:
        return Llama3Renderer.family
    if "<|im_start|>" not in source:
        raise CheckpointError(
            f"the model's chat template is of no known family ({', '.join(FAMILIES)}); it begins {source[:80]!r}; "
            "give a model of one of them"
        )
    if "<function=" in source:
        return Qwen35Renderer.family
    if "<tool_call>" not in source:
        return ChatMLRenderer.family
    return Qwen3ThinkingRenderer.family if "<think>" in source else HermesRenderer.family


def open_renderer(
    tokenizer: Tokenizer,
    template: ChatTemplate | None,
    *,
    style: RenderStyle = "full",
    family: str | None = None,
) -> CheckedRenderer:
    """The renderer of a model, checked against its template where it has one.

    Args:
        tokenizer: the model's.
        template: the model's; `None` for a model without one, which then needs a `family`.
        style: of the tools block; the check is always made in style `full`, the template's own.
        family: by name; without it, that of the template.

    Raises:
        CheckpointError: an unknown family, no template and no family, or a template that differs.
        PolicyError: the tokenizer lacks a structural token.
    """
    name = family or (detect_family(template.source) if template else None)
    if name not in FAMILIES:
        raise CheckpointError(
            f"the model's template family is {name!r}; known: {', '.join(FAMILIES)}. Name one as template_family in "
            "its spade.json, or give a model with a chat template"
        )
    if template is None:
        return CheckedRenderer(FAMILIES[name](tokenizer, style=style), Deviation.NONE)
    refused: CheckpointError | None = None
    for renderer, styled in _variants(name, tokenizer, template, style):
        try:
            return CheckedRenderer(styled, check_template(renderer, template))
        except CheckpointError as error:
            refused = refused or error
    raise refused or CheckpointError(f"no variant of the family {name}")


def _variants(
    name: str, tokenizer: Tokenizer, template: ChatTemplate, style: RenderStyle
) -> Iterator[tuple[Renderer, Renderer]]:
    """Renderers of a family in style `full` and in the style asked for, likeliest first."""
    if name == Llama3Renderer.family:
        yield Llama3Renderer(tokenizer), Llama3Renderer(tokenizer, style=style)
        return
    system = _default_system(tokenizer, template)
    if name in (HermesRenderer.family, ChatMLRenderer.family):
        kind = HermesRenderer if name == HermesRenderer.family else ChatMLRenderer
        yield kind(tokenizer, default_system=system), kind(tokenizer, style=style, default_system=system)
        return
    prefill = _prefill(tokenizer, template)
    if name == Qwen3ThinkingRenderer.family:
        yield (
            Qwen3ThinkingRenderer(tokenizer, default_system=system, prefill=prefill),
            Qwen3ThinkingRenderer(tokenizer, style=style, default_system=system, prefill=prefill),
        )
        return
    for scalars in ("python", "json"):
        yield (
            Qwen35Renderer(tokenizer, default_system=system, prefill=prefill, scalars=scalars),
            Qwen35Renderer(tokenizer, style=style, default_system=system, prefill=prefill, scalars=scalars),
        )


def _default_system(tokenizer: Tokenizer, template: ChatTemplate) -> str | None:
    """What the template says for a system prompt where a conversation has none."""
    text = tokenizer.decode(template.apply([{"role": "user", "content": "a"}], None, add_generation_prompt=False))
    found = re.match(r"<\|im_start\|>system\n(.*?)<\|im_end\|>", text, re.DOTALL)
    return found[1] if found else None


def _prefill(tokenizer: Tokenizer, template: ChatTemplate) -> Prefill:
    """What the template writes after the assistant's name.

    Raises:
        CheckpointError: something other than the beginning of a thought.
    """
    text = tokenizer.decode(template.apply([{"role": "user", "content": "a"}], None, add_generation_prompt=True))
    tail = text.rpartition("<|im_start|>assistant\n")[2]
    if tail not in _PREFILLS:
        raise CheckpointError(
            f"the model's chat template begins a message with {tail[:80]!r}; wanted the beginning of a thought or "
            "nothing: give a model whose template does that"
        )
    return _PREFILLS[tail]
