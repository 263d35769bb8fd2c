"""`play`: one policy in one environment, the only episode loop; every play ends in exactly one outcome."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from spade_agents.agent.prompts import PromptStyle, opening_messages, prompt_style
from spade_agents.errors import ContextExhaustedError, InfrastructureError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.rendering import announce_tools
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Completion, Outcome, Trajectory, Turn
from spade_environments import Env, EnvironmentFault, HostFault, Observation, Reply, StepResult
from spade_environments.validation import CallErrorKind
from spade_environments.wording import counted

__all__ = ["EPISODE_OVER", "TEARDOWN_SECONDS", "play"]

TEARDOWN_SECONDS = 5.0
"""What closing an environment gets at least, even after the deadline: its process must not be left behind."""

_CUT = "Error: the message was cut off by its length limit. Write a shorter one."
EPISODE_OVER = "Error: the episode is over."
"""What a call is answered that stands after the one that ended the episode."""

_ERROR_KINDS = frozenset({*CallErrorKind, "reply"})


async def play(
    env: Env,
    policy: Policy,
    *,
    sampling: Sampling,
    seed: int,
    hint: str | None = None,
    style: PromptStyle | None = None,
    deadline: float | None = None,
    environment_id: str = "",
    draw: int = 0,
) -> Trajectory:
    """Play one episode and close the environment.

    The return is the final reward where the environment terminated; used-up turns or context are 0 (`agent_error`);
    faults have no return.

    Args:
        env: not reset yet; closed when the play ends, however it ends.
        policy: continues the conversation.
        sampling: of every completion.
        seed: of the instance; each completion's seed is derived from it, the environment, the turn and `draw`.
        hint: stands once, with the first observation.
        style: of the system prompt and of announced tools; without it, that of the policy's renderer, or `full` for a
            policy that has none.
        deadline: `time.monotonic()` by which the play must have ended, teardown included.
        environment_id: kept in the trajectory.
        draw: tells plays of the same instance apart.
    """
    chosen = style or prompt_style(policy)
    episode = _Episode(env=env, policy=policy, sampling=sampling, style=chosen, deadline=deadline)
    seeds = (environment_id, seed, draw, hint is not None)
    try:
        async with asyncio.timeout(_left(deadline)):
            outcome, fault = await episode.run(seed, hint, seeds)
    except EnvironmentFault as error:
        outcome, fault = Outcome.ENVIRONMENT_FAULT, str(error)
    except (HostFault, InfrastructureError) as error:
        outcome, fault = Outcome.INFRASTRUCTURE_FAULT, str(error)
    except TimeoutError:
        outcome, fault = Outcome.INFRASTRUCTURE_FAULT, "the play's deadline passed"
    finally:
        closed = await _close(env, deadline)
    if closed is not None:
        episode.counters["teardown_fault"] += 1
    if closed == "timeout":
        outcome, fault = Outcome.INFRASTRUCTURE_FAULT, "the play's deadline passed while the environment was closed"
    return Trajectory(
        environment_id=environment_id,
        seed=seed,
        hinted=hint is not None,
        opening=episode.opening,
        turns=tuple(episode.turns),
        outcome=outcome,
        reward=episode.reward if outcome.is_valid else None,
        fault=fault,
        counters=dict(episode.counters),
        info=dict(episode.last.info) if episode.last else {},
    )


@dataclass(slots=True, kw_only=True)
class _Episode:
    """What a play has gathered so far; a fault at any moment leaves it readable."""

    env: Env
    policy: Policy
    sampling: Sampling
    style: PromptStyle
    deadline: float | None
    opening: tuple[Message, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    last: StepResult | None = None
    reward: float = 0.0

    async def run(self, seed: int, hint: str | None, seeds: tuple[str | int, ...]) -> tuple[Outcome, str | None]:
        """Turns until the environment ends the episode, or turns or context are used up."""
        observation = await self.env.reset(seed)
        self.opening = opening_messages(observation, hint, style=self.style, tools=self.env.tools)
        conversation = Conversation(messages=self.opening, tools=self.env.tools)
        for number in range(self.env.max_turns):
            try:
                completion = await self.policy.complete(
                    conversation, self.sampling, seed=derive_seed(*seeds, number), deadline=self.deadline
                )
            except ContextExhaustedError as error:
                self.counters["out_of_context"] += 1
                return Outcome.AGENT_ERROR, str(error)
            observations = await self._act(completion)
            if self.last is not None and self.last.terminated:
                self.reward = self.last.reward
                return Outcome.SCORED, None
            if self.last is not None and self.last.truncated:
                self.counters["truncated"] += 1
                return Outcome.AGENT_ERROR, "the environment truncated the episode"
            conversation = _continued(conversation, completion, observations, self.style)
        self.counters["out_of_turns"] += 1
        return Outcome.AGENT_ERROR, f"{counted(self.env.max_turns, 'turn')} used up"

    async def _act(self, completion: Completion) -> list[Observation]:
        """Carry out one assistant message; its turn is recorded even when the environment faults half-way."""
        observations: list[Observation] = []
        errors: list[str] = [broken.kind for broken in completion.broken]
        self.turns.append(Turn(completion=completion))
        for call in completion.calls:
            if self._is_over():
                observations.append(Observation(role="tool", text=EPISODE_OVER, call_id=call.id))
                continue
            self.last = await self.env.step(call)
            observations.append(replace(self.last.observation, call_id=call.id))
            errors += _error_kind(self.last)
        for broken in completion.broken:
            observations.append(Observation(role="tool", text=f"Error: {broken.message}"))
        if not observations and completion.finish == "length":
            errors.append("cut_text")
            observations.append(Observation(role="user", text=_CUT))
        elif not observations:
            self.last = await self.env.step(Reply(text=completion.text))
            observations.append(self.last.observation)
            errors += _error_kind(self.last)
        self.counters.update(errors)
        self.turns[-1] = Turn(completion=completion, observations=tuple(observations), errors=tuple(errors))
        return observations

    def _is_over(self) -> bool:
        return self.last is not None and (self.last.terminated or self.last.truncated)


def _continued(
    conversation: Conversation, completion: Completion, observations: list[Observation], style: PromptStyle
) -> Conversation:
    tokens = None
    if completion.prompt_ids is not None and completion.token_ids is not None:
        tokens = completion.prompt_ids + completion.token_ids
    said = Message(role="assistant", content=completion.text, calls=completion.calls, thinking=completion.thinking)
    heard = (
        Message.of(replace(seen, text=announce_tools(seen.text, seen.tools, style=style))) for seen in observations
    )
    continued = conversation.then(said, *heard, tokens=tokens)
    unlocked = tuple(tool for seen in observations for tool in seen.tools)
    return replace(continued, unlocked=conversation.unlocked + unlocked) if unlocked else continued


def _error_kind(result: StepResult) -> list[str]:
    """The kind of malformed action that the environment's host named; designed code's own words do not count."""
    kind = result.info.get("error")
    return [kind] if isinstance(kind, str) and kind in _ERROR_KINDS else []


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


async def _close(env: Env, deadline: float | None) -> str | None:
    """Close the environment; `None` when that went well, else `timeout` or `fault`, which may not hide the play."""
    try:
        async with asyncio.timeout(None if deadline is None else max(_left(deadline) or 0.0, TEARDOWN_SECONDS)):
            await env.aclose()
    except TimeoutError:
        return "timeout"
    except (EnvironmentFault, HostFault):
        return "fault"
    return None
