"""Plays of multi-turn and agentic entries: the package's driver asks for completions, a policy gives them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from spade_agents.errors import ContextExhaustedError, InfrastructureError
from spade_agents.messages import Conversation, Message
from spade_agents.trajectory import Completion
from spade_environments import ToolSpec
from spade_evals.grading.conversing import Channel, JailedScript
from spade_evals.suites.bfcl.calls import step_of, without_programs

__all__ = ["Ask", "Play", "Player", "read_tools"]

_SCRIPT = Path(__file__).with_name("driver.py")

Ask = Callable[[Conversation, int], Awaitable[Completion]]
"""Continues a conversation; the number counts a play's completions from 0."""

_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What came of one entry.

    Attributes:
        result: as the package has it, by turn and step; `None` where the play had to be broken off.
        error: the package's, or `context` where the conversation outgrew the model.
        snapshot: the memory that the entry left behind, for memory entries.
        messages: the conversation, for a reader.
        finish: of the last completion, or `length` where one was cut.
    """

    result: Any = None
    error: str = ""
    snapshot: str | None = None
    messages: tuple[Message, ...] = ()
    finish: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(slots=True, kw_only=True)
class Player:
    """Asks `driver.py`; belongs to one event loop.

    Attributes:
        python: bfcl-eval's.
        cpu_seconds: of one play: the package's environments take milliseconds, but a model can ask for a number without
            end.
    """

    python: Path
    cpu_seconds: int = 120
    _jailed: JailedScript | None = None
    _listening: asyncio.Task[None] | None = None
    _playing: dict[str, asyncio.Future[int]] = field(default_factory=dict)

    async def play(
        self, category: str, identity: str, ask: Ask, *, known: frozenset[str], snapshot: str | None = None
    ) -> Play:
        """Play one entry to its end.

        Args:
            category: of the entry.
            identity: of the entry.
            ask: gives the completions.
            known: every tool that the entry offers, now or later.
            snapshot: the memory it begins with.

        Raises:
            InfrastructureError: the process was lost; or what `ask` raises.
        """
        self._jailed = self._jailed or JailedScript(
            script=_SCRIPT, python=self.python, arguments=(str(self.cpu_seconds),)
        )
        main = await self._jailed.main()
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen(self._jailed, main))
        name, channel = await self._jailed.channel()
        ended = self._playing[name] = asyncio.get_running_loop().create_future()
        talking = asyncio.create_task(_Talk(channel=channel, ask=ask, known=known).run())
        try:
            await main.send({"play": name, "category": category, "id": identity, "snapshot": snapshot})
            await asyncio.wait((talking, ended), return_when=asyncio.FIRST_COMPLETED)
            if talking.done() and (play := talking.result()) is not None:
                return play
            return await _broken_off(ended)
        finally:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)
            del self._playing[name]
            channel.close()

    async def aclose(self) -> None:
        """End the process."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._jailed is not None:
            await self._jailed.aclose()

    async def _listen(self, jailed: JailedScript, main: Channel) -> None:
        """Hear of plays whose process ended, until all have."""
        while (row := await main.receive()) is not None:
            future = self._playing.get(row["ended"])
            if future is not None and not future.done():
                future.set_result(row["status"])
        lost = await jailed.fault()
        for future in self._playing.values():
            if not future.done():
                future.set_exception(lost)


async def _broken_off(ended: asyncio.Future[int]) -> Play:
    """A play whose process ended before its result: the model's own doing where it used up its CPU time."""
    try:
        async with asyncio.timeout(_END_SECONDS):
            status = await ended
    except TimeoutError as error:
        raise InfrastructureError("a play of bfcl-eval's driver ended without a result") from error
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return Play(error="cpu", finish="cpu")
    raise InfrastructureError(f"a play of bfcl-eval's driver ended with status {status}")


@dataclass(slots=True, kw_only=True)
class _Talk:
    """One conversation between the driver's play and the model."""

    channel: Channel
    ask: Ask
    known: frozenset[str]
    conversation: Conversation = field(default_factory=lambda: Conversation(messages=()))
    tokens_in: int = 0
    tokens_out: int = 0
    finish: str = ""

    async def run(self) -> Play | None:
        """Completions until the package has its result; `None` where it hung up before."""
        await self.channel.open()
        for number in count():
            row = await self.channel.receive()
            if row is None:
                return None
            if "result" in row:
                return self._play(result=row["result"], error=row["error"], snapshot=row["snapshot"])
            self._hear(row)
            try:
                completion = await self.ask(self.conversation, number)
            except ContextExhaustedError:
                self.finish = "context"
                return self._play(error="context")
            await self.channel.send(self._answer(completion))
        raise AssertionError("unreachable")

    def _hear(self, row: Mapping[str, Any]) -> None:
        """Continue with what the package says; where it offers other tools, the whole is rendered anew, as it does."""
        said = [
            Message(role=one["role"], content=one["content"], call_id=one.get("tool_call_id"))
            for one in row["messages"]
        ]
        if row["tools"] is None:
            self.conversation = self.conversation.then(*said)
        else:
            told = (*self.conversation.messages, *said)
            self.conversation = Conversation(messages=told, tools=read_tools(row["tools"]))

    def _answer(self, completion: Completion) -> dict[str, Any]:
        tokens = None
        if completion.prompt_ids is not None and completion.token_ids is not None:
            tokens = completion.prompt_ids + completion.token_ids
        said = Message(role="assistant", content=completion.text, calls=completion.calls, thinking=completion.thinking)
        self.conversation = self.conversation.then(said, tokens=tokens)
        used = (completion.usage.prompt_tokens, completion.usage.completion_tokens)
        self.tokens_in, self.tokens_out = self.tokens_in + used[0], self.tokens_out + used[1]
        self.finish = "length" if "length" in (completion.finish, self.finish) else completion.finish
        # A call that cannot be read spoils its message for the package too: it is text, which ends the turn.
        step = without_programs(step_of(completion.text, () if completion.broken else completion.calls), self.known)
        return {
            "calls": step if isinstance(step, list) else [],
            "ids": [call.id for call in completion.calls],
            "text": completion.text,
            "tokens": used,
        }

    def _play(self, *, result: Any = None, error: str = "", snapshot: str | None = None) -> Play:
        return Play(
            result=result, error=error, snapshot=snapshot, messages=self.conversation.messages, finish=self.finish,
            tokens_in=self.tokens_in, tokens_out=self.tokens_out,
        )  # fmt: skip


def read_tools(rows: Sequence[Mapping[str, Any]]) -> tuple[ToolSpec, ...]:
    """Tools as the package writes them for chat completions."""
    return tuple(
        ToolSpec(name=row["name"], description=row.get("description", ""), parameters=row["parameters"]) for row in rows
    )
