"""HermesRenderer: conversations to tokens and back, in the Qwen3/Hermes ChatML form; it only ever appends.

Text between two structural tokens is encoded in one piece, exactly as the template's string would be; structural tokens
are glued in by id, so that nothing an environment or a user writes can become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from spade_agents.errors import PolicyError
from spade_agents.messages import Conversation, Message
from spade_agents.rendering.calls import Parsed, call_json, parse_pieces
from spade_agents.rendering.tags import CALL, CALL_END, END, OPTIONAL_TAGS, RESULT, RESULT_END, START, Tag
from spade_agents.rendering.tags import split_at_tags as _split
from spade_agents.rendering.tools import RenderStyle, tools_block
from spade_environments import ToolSpec

__all__ = ["HermesRenderer", "RenderedTranscript", "Tokenizer"]

_HEADER: Final = (START, "assistant\n")


class Tokenizer(Protocol):
    """What the renderer needs of a tokenizer."""

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


class HermesRenderer:
    """Renders openings and continuations, and parses what was sampled.

    Args:
        tokenizer: holds `<|im_start|>` and `<|im_end|>`; `<tool_call>`, `<tool_response>`, `<think>` and their ends are
            used by id where it has them, else written as text.
        style: `full` is Qwen3's own text; `compact` leaves out the prose around the tools.

    Raises:
        PolicyError: the tokenizer has no ChatML tokens.
    """

    family: Final = "hermes"

    def __init__(self, tokenizer: Tokenizer, *, style: RenderStyle = "full") -> None:
        self.tokenizer = tokenizer
        self.style: RenderStyle = style
        found = {tag: tokenizer.token_to_id(tag) for tag in (START, END, *OPTIONAL_TAGS)}
        missing = [tag for tag in (START, END) if found[tag] is None]
        if missing:
            raise PolicyError(f"the tokenizer has no token {missing[0]!r}; the hermes template needs ChatML tokens")
        self._ids: dict[Tag, int] = {tag: number for tag, number in found.items() if number is not None}
        self._tags = {self._ids[tag]: tag for tag in OPTIONAL_TAGS if tag in self._ids}
        self._spelled = tuple(tag for tag in OPTIONAL_TAGS if tag not in self._ids)

    @property
    def end_id(self) -> int:
        """The token that ends an assistant message: the stop token."""
        return self._ids[END]

    @property
    def call_end_id(self) -> int | None:
        """The token `</tool_call>`, or `None` where the tokenizer spells it."""
        return self._ids.get(CALL_END)

    def render_opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> list[int]:
        """Tokens of everything before the next assistant message, its header included.

        Earlier assistant messages among `messages` are written as they would have been sampled.
        """
        ids, _, rest = self._render(messages, tools)
        return ids + self._encode([*rest, *_HEADER])

    def render_continuation(self, messages: Sequence[Message], *, ended: bool = True) -> list[int]:
        """What follows sampled tokens, up to and including the next assistant header.

        Args:
            messages: tool results and user messages since the last assistant message.
            ended: whether the sampled tokens end with `<|im_end|>`; a message cut by length is closed here.
        """
        before = ["\n"] if ended else [END, "\n"]
        return self._encode([*before, *_rendered(messages), *_HEADER])

    def render_prompt(self, conversation: Conversation) -> list[int]:
        """The tokens to continue: what was sampled stays as it is, what is new is appended."""
        if conversation.tokens is None:
            return self.render_opening(conversation.messages, conversation.tools)
        kept = list(conversation.tokens)
        ended = bool(kept) and kept[-1] == self.end_id
        return kept + self.render_continuation(conversation.unrendered(), ended=ended)

    def render_assistant(self, message: Message) -> list[int]:
        """The tokens that a policy writing `message` samples, the stop token included."""
        return self._encode([*_written(message), END])

    def render_written(self, text: str) -> list[int]:
        """The tokens of an assistant message given as raw text, its tags spelled; the stop token included."""
        return self._encode([*_split(text, OPTIONAL_TAGS), END])

    def render_transcript(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> RenderedTranscript:
        """Tokens and training mask of a whole conversation, ending where its last message ends.

        Each assistant message is encoded apart from its header, as it is when sampled after it: these tokens equal
        opening, sampled tokens and continuations put together. After a last assistant message comes no newline.
        """
        ids, mask, rest = self._render(messages, tools)
        ended_by_assistant = bool(messages) and messages[-1].role == "assistant"
        tail = [] if ended_by_assistant else self._encode(rest)
        return RenderedTranscript(ids + tail, mask + [False] * len(tail))

    def parse(self, token_ids: Sequence[int], *, truncated: bool = False) -> Parsed:
        """Text, thinking, calls and broken calls of sampled tokens; never raises.

        Args:
            token_ids: one assistant message, with or without its stop token.
            truncated: whether it was cut by length.
        """
        ids = list(token_ids)
        if ids and ids[-1] == self.end_id:
            ids.pop()
        return parse_pieces(self._pieces(ids), truncated=truncated)

    def _render(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> tuple[list[int], list[bool], list[str]]:
        """Tokens and mask up to the last assistant message, and the pieces after it."""
        ids: list[int] = []
        mask: list[bool] = []
        system = messages[0].content if messages and messages[0].role == "system" else None
        pieces = _system(system, tools, self.style)
        run: list[Message] = []
        for message in messages[system is not None :]:
            if message.role != "assistant":
                run.append(message)
                continue
            prompt = self._encode([*pieces, *_rendered(run), *_HEADER])
            sampled = self.render_assistant(message)
            ids += prompt + sampled
            mask += [False] * len(prompt) + [True] * len(sampled)
            pieces, run = ["\n"], []
        return ids, mask, [*pieces, *_rendered(run)]

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
        return _split(self.tokenizer.decode(run), self._spelled) if run else iter(())

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


def _system(content: str | None, tools: Sequence[ToolSpec], style: RenderStyle) -> list[str]:
    """The pieces of the system message, which also shows the tools; none where there is neither."""
    if not tools:
        return [] if content is None else [START, f"system\n{content}", END, "\n"]
    gap = "\n\n" if style == "full" else "\n"
    before = "" if content is None else content + gap
    return [START, f"system\n{before}", *tools_block(tools, style), END, "\n"]


def _rendered(messages: Sequence[Message]) -> list[str]:
    """The pieces of user messages and tool results; neighbouring results share one user turn, as in Qwen3."""
    pieces: list[str] = []
    for index, message in enumerate(messages):
        if message.role != "tool":
            pieces += [START, f"{message.role}\n{message.content}", END, "\n"]
            continue
        if index == 0 or messages[index - 1].role != "tool":
            pieces += [START, "user"]
        pieces += ["\n", RESULT, f"\n{message.content}\n", RESULT_END]
        if index + 1 == len(messages) or messages[index + 1].role != "tool":
            pieces += [END, "\n"]
    return pieces


def _written(message: Message) -> list[str]:
    """The pieces of an assistant message: its text, then one tagged line a call."""
    pieces: list[str] = [message.content] if message.content else []
    for call in message.calls:
        pieces += ["\n"] if pieces else []
        pieces += [CALL, f"\n{call_json(call)}\n", CALL_END]
    return pieces
