"""Whether a model's own chat template says, token for token, what our renderer appends; checked at start-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol

from spade_agents.errors import CheckpointError
from spade_agents.messages import Conversation, Message
from spade_agents.rendering.chatml import ChatMLRenderer
from spade_agents.rendering.renderer import Renderer
from spade_agents.rendering.thinking import Qwen3ThinkingRenderer
from spade_agents.rendering.tools import function_schema
from spade_environments import ToolCall, ToolSpec

__all__ = ["ChatTemplate", "Deviation", "check_dialogue", "check_template", "template_messages"]

_SHOWN: Final = 60

_LOOK: Final = ToolSpec(
    name="look",
    description="Look into a place.",
    parameters={
        "type": "object",
        "properties": {"place": {"type": "string"}, "depth": {"type": "integer"}, "lit": {"type": "boolean"}},
        "required": ["place"],
    },
)
_LIST: Final = ToolSpec(name="list_places", description="All places.", parameters={"type": "object", "properties": {}})
TOOLS: Final = (_LOOK, _LIST)
"""The tools of the conversation that is checked."""


class ChatTemplate(Protocol):
    """A model's own template, with the tokenizer that it belongs to."""

    @property
    def source(self) -> str:
        """The template's text."""
        ...

    def apply(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        add_generation_prompt: bool,
    ) -> list[int]:
        """Tokens of a conversation."""
        ...


class Deviation(StrEnum):
    """How what we render departs from the template, knowingly and the same in training and serving."""

    NONE = "none"
    THOUGHTS_KEPT = "thoughts_kept"
    """Thoughts before the last user message, and empty ones, stay: tokens that were sampled are never taken back."""


def check_template(renderer: Renderer, template: ChatTemplate) -> Deviation:
    """Hold a renderer against the template over one conversation, exchange by exchange.

    The conversation has two tool turns, parallel calls where the family has them, a user turn, and thoughts where the
    family thinks.

    Raises:
        CheckpointError: they differ in a way that has no name; the message shows where.
    """
    return check_dialogue(renderer, template, _conversation(renderer), TOOLS)


def check_dialogue(
    renderer: Renderer, template: ChatTemplate, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> Deviation:
    """Build a conversation as a play does, appending, and compare it with the template before each assistant message.

    Raises:
        CheckpointError: they differ in a way that has no name.
    """
    found = Deviation.NONE
    kept: tuple[int, ...] | None = None
    for place, message in enumerate(messages):
        if message.role != "assistant":
            continue
        conversation = Conversation(messages=tuple(messages[:place]), tools=tuple(tools), tokens=kept)
        prompt = renderer.render_prompt(conversation)
        found = max(found, _compared(renderer, template, prompt, messages[:place], tools), key=list(Deviation).index)
        kept = tuple(prompt + renderer.render_assistant(message))
    if kept is None or messages[-1].role != "assistant":
        raise ValueError("a dialogue to check ends with an assistant message")
    ended = [*kept, *renderer.tokenizer.encode(renderer.gap)]
    return max(found, _compared(renderer, template, ended, messages, tools), key=list(Deviation).index)


def template_messages(renderer: Renderer, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the form that Hugging Face chat templates take."""
    return [_entry(renderer, message) for message in messages]


def _compared(
    renderer: Renderer, template: ChatTemplate, ours: list[int], messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> Deviation:
    asked = messages[-1].role != "assistant"
    theirs = _applied(renderer, template, messages, tools, asked=asked)
    if ours == theirs:
        return Deviation.NONE
    if isinstance(renderer, Qwen3ThinkingRenderer):
        forgotten = renderer.forgotten_thoughts(messages)
        shorter = renderer.render_forgetting(messages, tools, forgotten)
        if forgotten and shorter == theirs:
            return Deviation.THOUGHTS_KEPT
    raise CheckpointError(_difference(renderer, ours, theirs, len(messages)))


def _applied(
    renderer: Renderer, template: ChatTemplate, messages: Sequence[Message], tools: Sequence[ToolSpec], *, asked: bool
) -> list[int]:
    folds = isinstance(renderer, ChatMLRenderer)
    shown = renderer.folded(messages, tools) if isinstance(renderer, ChatMLRenderer) else messages
    schemas = [function_schema(tool) for tool in tools] if tools and not folds else None
    try:
        return template.apply(template_messages(renderer, shown), schemas, add_generation_prompt=asked)
    except Exception as error:  # whatever a template raises, it cannot show this conversation
        raise CheckpointError(
            f"the model's chat template cannot show a conversation of {len(messages)} messages with tools: {error}; "
            "give a model whose template has tools, or bare ChatML roles"
        ) from error


def _difference(renderer: Renderer, ours: list[int], theirs: list[int], count: int) -> str:
    place = next(
        (n for n, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other),
        min(len(ours), len(theirs)),
    )
    before = renderer.tokenizer.decode(ours[max(0, place - 12) : place])
    wanted, found = (renderer.tokenizer.decode(ids[place : place + 60])[:_SHOWN] for ids in (ours, theirs))
    same = " (the same text in other tokens)" if wanted == found else ""
    return (
        f"the model's chat template is not prefix-preserving, or no {renderer.family} template: after {count} messages "
        f"and {before!r} it has {found!r}{same} where tokens that are only ever appended have {wanted!r}; known "
        "families: hermes, qwen3_thinking, qwen3_5, chatml, llama3. Give a model with one of their templates"
    )


def _entry(renderer: Renderer, message: Message) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        entry["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": dict(call.arguments)}}
            for call in message.calls
        ]
    if message.thinking and renderer.thinks:
        entry["reasoning_content"] = message.thinking
    return entry


def _conversation(renderer: Renderer) -> tuple[Message, ...]:
    thinks = isinstance(renderer, Qwen3ThinkingRenderer) and renderer.prefill != "closed"

    def said(content: str, *calls: ToolCall) -> Message:
        text = content if renderer.parallel_calls or not calls else ""
        return Message(role="assistant", content=text, calls=calls, thinking="One thing\nat a time." if thinks else "")

    shed = ToolCall(name="look", arguments={"place": "shed", "depth": 2, "lit": True})
    both = (shed, ToolCall(name="list_places", arguments={})) if renderer.parallel_calls else (shed,)
    heard = [Message(role="tool", content=text) for text in ("a key\nand a lamp", '{"places": ["shed", "attic"]}')]
    return (
        Message(role="system", content="Find things."),
        Message(role="user", content="Where is the key?"),
        said("I look.", *both),
        *heard[: len(both)],
        said("", ToolCall(name="look", arguments={"place": "attic"})),
        Message(role="tool", content="dust"),
        said("The key is in the shed."),
        Message(role="user", content="And the rope?"),
        said("", ToolCall(name="look", arguments={"place": "attic", "lit": False})),
        Message(role="tool", content="a rope"),
        said("The rope is in the attic."),
    )
