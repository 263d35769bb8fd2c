"""The nouns of a served episode: its mode, phase and limits, what a client reads, what the trainer reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from spade_environments import ToolSpec

__all__ = [
    "Answer",
    "EpisodeCreated",
    "EpisodeLimits",
    "EpisodeOutcome",
    "EpisodeReport",
    "EpisodeRequest",
    "Exchange",
    "Mode",
    "Phase",
]


class Mode(StrEnum):
    """Whom an episode is for."""

    AGENT = "agent"
    """Starts on first contact; neither reset, score nor hint reaches the client."""
    PLAY = "play"
    """For people: `reset(seed)`, the score at the end, the hint on request."""


class Phase(StrEnum):
    """Where an episode stands."""

    NEEDS_RESET = "needs reset"
    RUNNING = "running"
    OVER = "over"


class EpisodeOutcome(StrEnum):
    """How an episode ended."""

    SCORED = "scored"
    """The environment terminated it; the reward is its return."""
    AGENT_ERROR = "agent_error"
    """Turns used up, or truncated by the environment: a return of 0."""
    ENVIRONMENT_FAULT = "environment_fault"
    INFRASTRUCTURE_FAULT = "infrastructure_fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLimits:
    """What an episode may use beyond the sandbox's own limits.

    Attributes:
        turns: actions before it is truncated; the environment's own `max_turns` where `None`. Who counts messages
            rather than calls sets it high and counts by himself.
        idle_seconds: without a request after which it is ended; the server's own where `None`.
    """

    turns: int | None = None
    idle_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRequest:
    """The body of `POST /episodes`.

    Attributes:
        environment: a name or id (or the start of an id, 8 characters at least) among those that are served.
        seed: of the instance; drawn at random where `None`.
        mode: agent or play.
        hint: whether a player may ask for the hint; play mode only.
    """

    environment: str
    seed: int | None = None
    mode: Mode = Mode.AGENT
    hint: bool = False
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCreated:
    """The answer to `POST /episodes`; `url` is the data plane's, and whoever holds it plays.

    `max_turns` is the environment's own limit, for a trainer that counts messages himself.
    """

    id: str
    url: str
    environment: str
    environment_id: str
    seed: int | None
    max_turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client reads after a call; no field but `score`, in play mode, tells of the reward.

    Attributes:
        text: the observation, to the byte what the environment said.
        over: whether the episode is.
        is_error: whether the model should take it as a failed call.
        error: the kind of a malformed action.
        new_tools: those that this turn unlocked.
        score: of an episode that is over, in play mode.
    """

    text: str
    over: bool = False
    is_error: bool = False
    error: str | None = None
    new_tools: tuple[ToolSpec, ...] = ()
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One action and all that came of it, for the trainer.

    Attributes:
        tool: the tool called, `None` for a Reply, `?` where the name cannot be told.
        arguments: of the call, as they came; `None` where a malformed call's are too large or cannot be told.
        text: of the Reply, with the same exception.
        observation: what the agent read.
        role: `tool`, or `user` where the observation is the next instruction.
        new_tools: names of the tools unlocked.
    """

    tool: str | None
    arguments: Mapping[str, Any] | None
    text: str | None
    observation: str
    role: Literal["tool", "user"]
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    new_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeReport:
    """What `GET /episodes/{id}` tells the trainer.

    Attributes:
        outcome: `None` while the episode runs, or where it was ended from outside.
        reward: the return, `None` where there is none.
        fault: what went wrong, for people.
        opening: the first observation, `None` before the first contact.
        turns: actions taken.
        transcript: of them all, unless only the end was asked for.
    """

    id: str
    environment: str
    environment_id: str
    seed: int | None
    mode: Mode
    phase: Phase
    outcome: EpisodeOutcome | None
    reward: float | None
    fault: str | None
    opening: str | None
    turns: int
    transcript: tuple[Exchange, ...]

    def with_last(self, exchanges: int) -> EpisodeReport:
        """The same, with the end of the transcript only; `turns` still counts all of it."""
        return replace(self, transcript=self.transcript[max(0, len(self.transcript) - exchanges) :])
