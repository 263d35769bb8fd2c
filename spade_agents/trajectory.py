"""What is kept of a play: completions, turns, outcome, and the tokens to train on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from spade_agents.messages import Message
from spade_environments import Observation, ToolCall

__all__ = [
    "BrokenCall",
    "Completion",
    "Outcome",
    "Role",
    "TrainingSample",
    "Trajectory",
    "TrajectoryGroup",
    "Turn",
    "Usage",
]


class Role(StrEnum):
    """Whose tokens they are."""

    DESIGNER = "designer"
    AGENT = "agent"


class Outcome(StrEnum):
    """How a play ended; the two faults are missing values, never a 0."""

    SCORED = "scored"
    AGENT_ERROR = "agent_error"
    ENVIRONMENT_FAULT = "environment_fault"
    INFRASTRUCTURE_FAULT = "infrastructure_fault"

    @property
    def is_valid(self) -> bool:
        """Whether the play has a return."""
        return self in (Outcome.SCORED, Outcome.AGENT_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCall:
    """A call that could not be read: which kind of fault, and the text the agent is told."""

    kind: Literal["not_json", "bad_call", "truncated", "double_encoded", "several_calls"]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens in and out of one completion."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One assistant message as sampled.

    Attributes:
        text: what stands outside calls and thinking.
        calls: the well-formed calls, in order.
        broken: the calls that could not be read.
        finish: `stop` (a plain message), `calls`, or `length` (cut).
        prompt_ids, token_ids, logprobs: exact tokens, the stop token included, and their log-probabilities at the
            sampling `temperature`; all `None` for a policy without tokens.
        weight_version: of the weights that sampled.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    broken: tuple[BrokenCall, ...] = ()
    thinking: str = ""
    finish: Literal["stop", "calls", "length"] = "stop"
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    temperature: float = 1.0
    weight_version: int = 0
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One assistant message and what came back for it."""

    completion: Completion
    observations: tuple[Observation, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSample:
    """Tokens of one episode or design, with everything the loss needs.

    Attributes:
        token_ids: prompt, sampled and observed tokens, shape (T,).
        mask: True where a token was sampled, shape (T,).
        logprobs: of the sampled tokens at `temperature`, 0.0 elsewhere, shape (T,).
        advantage: one number for the whole sample (role weight included).
        role: whose tokens.
        group: samples that share an environment (agent) or a skill (designer).
        weight_version: the weights that sampled the last token.
    """

    token_ids: tuple[int, ...]
    mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    advantage: float
    role: Role
    group: str
    temperature: float = 1.0
    weight_version: int = 0

    @classmethod
    def canary(cls, token_ids: tuple[int, ...]) -> TrainingSample:
        """Tokens to be scored and not trained on: every one after the first is masked in, shape (T,)."""
        return cls(
            token_ids=token_ids,
            mask=(False,) + (True,) * (len(token_ids) - 1),
            logprobs=(0.0,) * len(token_ids),
            advantage=0.0,
            role=Role.AGENT,
            group="canary",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One play, whole.

    Attributes:
        environment_id: spec id.
        seed: of the instance.
        hinted: which arm.
        opening: the messages before the first completion.
        turns: in order.
        outcome: how it ended; `reward` is the return where it is valid, else `None`.
        fault: for a fault, its kind and detail.
        counters: malformed calls and the like, by kind.
    """

    environment_id: str
    seed: int
    hinted: bool = False
    opening: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()
    outcome: Outcome
    reward: float | None
    fault: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    def training_sample(self, *, advantage: float, group: str) -> TrainingSample | None:
        """The play's tokens exactly as sampled, or `None` where it has none.

        The last completion's prompt holds everything before it; sampled spans are found by the lengths of prompts.
        """
        completions = [turn.completion for turn in self.turns if turn.completion.token_ids]
        if not completions:
            return None
        return sample_from(completions, advantage=advantage, group=group, role=Role.AGENT)


def sample_from(completions: list[Completion], *, advantage: float, group: str, role: Role) -> TrainingSample:
    """One training sample from completions whose prompts only ever append.

    Raises:
        ValueError: a later prompt does not begin with the earlier prompt and its sampled tokens, or tokens have no
            log-probabilities of the distribution that they were sampled from.
    """
    tokens: tuple[int, ...] = ()
    mask: list[bool] = []
    logprobs: list[float] = []
    for completion in completions:
        prompt, sampled = completion.prompt_ids or (), completion.token_ids or ()
        if prompt[: len(tokens)] != tokens:
            raise ValueError("a prompt was re-rendered: it does not begin with the tokens sampled so far")
        if sampled and completion.logprobs is None:
            raise ValueError(
                "sampled tokens have no log-probabilities, so they cannot be trained on: top-p, top-k or a temperature "
                "was used at a server that tells unprocessed ones; start it with --logprobs-mode processed_logprobs"
            )
        observed = len(prompt) - len(tokens)
        tokens = prompt + sampled
        mask += [False] * observed + [True] * len(sampled)
        logprobs += [0.0] * observed + list(completion.logprobs or ())
    last = completions[-1]
    return TrainingSample(
        token_ids=tokens,
        mask=tuple(mask),
        logprobs=tuple(logprobs),
        advantage=advantage,
        role=role,
        group=group,
        temperature=last.temperature,
        weight_version=last.weight_version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryGroup:
    """The plays of one environment in one arm, on one seed list."""

    environment_id: str
    hinted: bool
    trajectories: tuple[Trajectory, ...]

    @property
    def returns(self) -> tuple[float, ...]:
        """The returns of the valid plays, in order."""
        return tuple(t.reward for t in self.trajectories if t.outcome.is_valid and t.reward is not None)

    @property
    def missing(self) -> int:
        """How many plays have no return."""
        return len(self.trajectories) - len(self.returns)
