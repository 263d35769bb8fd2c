"""Renderer: conversations to tokens and back, for every template family; it only ever appends.

Text between two structural tokens is encoded in one piece, exactly as the template's string would be; structural tokens
are glued in by id, so that nothing an environment or a user writes can become one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, Literal, NamedTuple, Protocol

from spade_agents.errors import PolicyError
from spade_agents.messages import Conversation, Message
from spade_agents.rendering.calls import Parsed
from spade_agents.rendering.tags import Tag, split_at_tags
from spade_agents.rendering.tools import RenderStyle
from spade_environments import ToolSpec

__all__ = ["Prefill", "RenderedTranscript", "Renderer", "Tokenizer"]

Prefill = Literal["none", "open", "closed"]
"""What the template's assistant header holds of a thought: nothing, its opening tag, or an empty thought."""


class Tokenizer(Protocol):
    """What a renderer needs of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Tokens of plain text: never a special token, whatever the text holds."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens; special tokens show as their own text, broken UTF-8 as U+FFFD."""
        ...

    def token_to_id(self, token: str) -> int | None: ...


class RenderedTranscript(NamedTuple):
    """Tokens of a whole conversation, and True where the assistant wrote them (its stop token included)."""

    ids: list[int]
    mask: list[bool]


class _Body(NamedTuple):
    """Tokens and mask up to the last assistant message, and the pieces after it."""

    ids: list[int]
    mask: list[bool]
    rest: list[str]


class Renderer(ABC):
    """Renders openings and continuations, and parses what was sampled.

    Args:
        tokenizer: has the family's structural tokens; its optional ones are used by id where it has them, else spelled.
        style: `full` is the template's own text; `compact` leaves out the prose around the tools.

    Attributes:
        family: name of the template family.
        parallel_calls: whether a message of the template may hold several calls.
        thinks: whether its messages hold thoughts.

    Raises:
        PolicyError: the tokenizer lacks a structural token.
    """

    family: ClassVar[str]
    parallel_calls: ClassVar[bool] = True
    thinks: ClassVar[bool] = False
    structural: ClassVar[tuple[Tag, ...]]
    optional: ClassVar[tuple[Tag, ...]] = ()
    end: ClassVar[Tag]
    gap: ClassVar[str]
    """The text that follows the token that ends a message."""

    def __init__(self, tokenizer: Tokenizer, *, style: RenderStyle = "full") -> None:
        self.tokenizer: Final = tokenizer
        self.style: RenderStyle = style
        found = {tag: tokenizer.token_to_id(tag) for tag in (*self.structural, *self.optional)}
        missing = [tag for tag in self.structural if found[tag] is None]
        if missing:
            raise PolicyError(
                f"the tokenizer has no token {missing[0]!r}; the {self.family} template needs "
                f"{', '.join(self.structural)}: give a model of that family"
            )
        self._ids: dict[Tag, int] = {tag: number for tag, number in found.items() if number is not None}
        self._tags = {self._ids[tag]: tag for tag in self.optional if tag in self._ids}
        self._spelled = tuple(tag for tag in self.optional if tag not in self._ids)

    @property
    def end_id(self) -> int:
        """The token that ends an assistant message: the stop token."""
        return self._ids[self.end]

    @property
    def call_end_id(self) -> int | None:
        """The token that ends a call, or `None` where there is none."""
        return None

    def render_opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> list[int]:
        """Tokens of everything before the next assistant message, its header included.

        Earlier assistant messages among `messages` are written as they would have been sampled.
        """
        body = self._render(messages, tools)
        return body.ids + self._encode([*body.rest, *self._header()])

    def render_continuation(self, messages: Sequence[Message], *, ended: bool = True) -> list[int]:
        """What follows sampled tokens, up to and including the next assistant header.

        Args:
            messages: tool results and user messages since the last assistant message.
            ended: whether the sampled tokens end with the stop token; a message cut by length is closed here.
        """
        before = [self.gap] if ended else [self.end, self.gap]
        return self._encode([*before, *self._heard(messages), *self._header()])

    def render_prompt(self, conversation: Conversation) -> list[int]:
        """The tokens to continue: what was sampled stays as it is, what is new is appended."""
        if conversation.tokens is None:
            return self.render_opening(conversation.messages, conversation.tools)
        kept = list(conversation.tokens)
        ended = bool(kept) and kept[-1] == self.end_id
        return kept + self.render_continuation(conversation.unrendered(), ended=ended)

    def render_assistant(self, message: Message) -> list[int]:
        """The tokens that a policy writing `message` samples, the stop token included."""
        return self._encode([*self._written(message), self.end])

    def render_written(self, text: str) -> list[int]:
        """The tokens of an assistant message given as raw text, its tags spelled; the stop token included."""
        return self._encode([*split_at_tags(text, self.optional), self.end])

    def render_transcript(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> RenderedTranscript:
        """Tokens and training mask of a whole conversation, ending where its last message ends.

        Each assistant message is encoded apart from its header, as it is when sampled after it: these tokens equal
        opening, sampled tokens and continuations put together. After a last assistant message comes no gap.
        """
        body = self._render(messages, tools)
        ended_by_assistant = bool(messages) and messages[-1].role == "assistant"
        tail = [] if ended_by_assistant else self._encode(body.rest)
        return RenderedTranscript(body.ids + tail, body.mask + [False] * len(tail))

    def render_forgetting(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], forgotten: frozenset[int]
    ) -> list[int]:
        """A whole conversation as a template writes it that drops the thoughts of messages `forgotten` (by index).

        Only for comparing with such a template; ends with the next assistant header, or after an assistant's last word
        with the gap.
        """
        body = self._render(messages, tools, forgotten)
        spoke_last = bool(messages) and messages[-1].role == "assistant"
        return body.ids + self._encode(body.rest if spoke_last else [*body.rest, *self._header()])

    def parse(self, token_ids: Sequence[int], *, truncated: bool = False, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Text, thinking, calls and broken calls of sampled tokens; never raises.

        Args:
            token_ids: one assistant message, with or without its stop token.
            truncated: whether it was cut by length.
            tools: known to the model; a family that writes arguments as bare text reads their types there.
        """
        ids = list(token_ids)
        if ids and ids[-1] == self.end_id:
            ids.pop()
        return self._read(self._pieces(ids), truncated=truncated, tools=tools)

    @abstractmethod
    def _opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[list[str], int]:
        """The pieces that show system prompt and tools, and how many of `messages` they took up."""

    @abstractmethod
    def _heard(self, messages: Sequence[Message]) -> list[str]:
        """The pieces of user messages and tool results that stand side by side."""

    @abstractmethod
    def _header(self, *, forgotten: bool = False) -> list[str]:
        """The pieces before an assistant message; of one whose thought is forgotten, without any of it."""

    @abstractmethod
    def _written(self, message: Message, *, forgotten: bool = False) -> list[str]:
        """The pieces of an assistant message, after its header and before its end."""

    @abstractmethod
    def _read(self, pieces: Iterable[str], *, truncated: bool, tools: Sequence[ToolSpec]) -> Parsed:
        """What a sampled message holds, given as text and tags in order."""

    def _render(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], forgotten: frozenset[int] = frozenset()
    ) -> _Body:
        ids: list[int] = []
        mask: list[bool] = []
        pieces, taken = self._opening(messages, tools)
        run: list[Message] = []
        for index, message in enumerate(messages[taken:], start=taken):
            if message.role != "assistant":
                run.append(message)
                continue
            gone = index in forgotten
            prompt = self._encode([*pieces, *self._heard(run), *self._header(forgotten=gone)])
            sampled = self._encode([*self._written(message, forgotten=gone), self.end])
            ids += prompt + sampled
            mask += [False] * len(prompt) + [True] * len(sampled)
            pieces, run = [self.gap], []
        return _Body(ids, mask, [*pieces, *self._heard(run)])

    def _pieces(self, ids: Iterable[int]) -> Iterator[str]:
        run: list[int] = []
        for number in ids:
            if number in self._tags:
                yield from self._decoded(run)
                yield self._tags[number]
                run = []
            else:
                run.append(number)
        yield from self._decoded(run)

    def _decoded(self, run: list[int]) -> Iterator[str]:
        return split_at_tags(self.tokenizer.decode(run), self._spelled) if run else iter(())

    def _encode(self, pieces: Iterable[str]) -> list[int]:
        ids: list[int] = []
        text = ""
        for piece in pieces:
            number = self._ids.get(piece) if isinstance(piece, Tag) else None
            if number is None:
                text += piece
                continue
            ids += self.tokenizer.encode(text) if text else []
            ids.append(number)
            text = ""
        return ids + (self.tokenizer.encode(text) if text else [])
