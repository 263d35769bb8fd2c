"""AceBenchEnv: a dialogue with scenario classes and, in multi_turn, a simulated user; calls are prose in Replies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spade_agents.errors import ContextExhaustedError, InfrastructureError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.seeds import derive_seed
from spade_environments import Action, Observation, Reply, StepResult, ToolSpec
from spade_environments.validation import CallErrorKind
from spade_evals.grading.jailed import JailedGrader
from spade_evals.suites.acebench import dialogue_prompts as prompts
from spade_evals.suites.acebench.parser import CallError, read_calls
from spade_evals.suites.acebench.states import check_states

__all__ = ["FINISHED", "MESSAGES", "AceBenchEnv", "Scenario", "SimulatedUser"]

MESSAGES = 20
"""Of the agent: a dialogue has 40 turns, and each of its messages is followed by one of the user or the classes."""
FINISHED = "finish conversation"
_NUDGE = "Please do not ask me any questions, use the known conditions to solve the problem"
_USER_SAMPLING = Sampling(temperature=0.001, max_tokens=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One entry of the agent parts.

    Attributes:
        id: of the entry.
        question: what multi_step asks, or what multi_turn's user is instructed to want.
        functions: schemas, for the prompt.
        classes: scenario classes, in order; `configuration` their initial states by class.
        gold: states at the end.
        has_user: whether it is of multi_turn.
    """

    id: str
    question: str
    functions: Sequence[Mapping[str, Any]]
    classes: tuple[str, ...]
    configuration: Mapping[str, Any]
    gold: Any
    has_user: bool


class SimulatedUser:
    """Any policy as the user; its own lines are assistant messages (upstream marks them `system`, which few take).

    Attributes:
        tokens_in, tokens_out: of its completions so far.
    """

    def __init__(self, policy: Policy, scenario: Scenario, *, max_tokens: int, deadline: float | None = None) -> None:
        template = prompts.TRAVEL_USER if "Travel" in scenario.classes else prompts.PHONE_USER
        self._policy = policy
        self._deadline = deadline
        self.tokens_in = self.tokens_out = 0
        self._sampling = Sampling(
            temperature=_USER_SAMPLING.temperature, max_tokens=min(max_tokens, _USER_SAMPLING.max_tokens)
        )
        self._messages = [
            Message(role="system", content=template.format(instruction=scenario.question)),
            Message(role="user", content=prompts.USER_OPENING),
        ]

    async def answer(self, said: str | None, *, seed: int) -> str:
        """What the user says: at first without `said`, then to a message of the agent.

        Raises:
            InfrastructureError: the user's model failed, or its context is used up: neither is the agent's doing.
        """
        if said is not None:
            self._messages.append(Message(role="user", content=re.sub(r"\A(?:user|agent):", "", said)))
        conversation = Conversation(messages=tuple(self._messages))
        try:
            completion = await self._policy.complete(conversation, self._sampling, seed=seed, deadline=self._deadline)
        except ContextExhaustedError as error:
            raise InfrastructureError(f"the user model's context is used up; give a larger one: {error}") from error
        self._messages.append(Message(role="assistant", content=completion.text))
        self.tokens_in += completion.usage.prompt_tokens
        self.tokens_out += completion.usage.completion_tokens
        return completion.text


@dataclass(slots=True, kw_only=True)
class AceBenchEnv:
    """An Env without tools whose Replies are read by their syntax tree; the reward is that of the state at the end.

    Observations of role `tool` are results of calls, those of role `user` the user's words. Each of them is answered by
    the scenario classes in a jailed process, which plays all calls of the dialogue again, so that none outlives a step.

    Attributes:
        scenario: the entry.
        classes: the jailed process with the scenario classes.
        user: needed where the scenario has one.
        process: the messages that the classes were given.
        states: of the classes after them; `None` before the first and where they could not be had.
        fault: how a call broke the classes.
    """

    scenario: Scenario
    classes: JailedGrader
    user: SimulatedUser | None = None
    process: list[str] = field(default_factory=list)
    states: Sequence[Mapping[str, Any]] | None = None
    fault: str = ""
    _seed: int = 0
    _said: int = 0
    _calls: list[list[tuple[str, dict[str, Any]]]] = field(default_factory=list)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return ()

    @property
    def max_turns(self) -> int:
        return MESSAGES

    async def reset(self, seed: int) -> Observation:
        """The question, or the first words of the user."""
        self._seed, self._said, self.states, self.fault = seed, 0, None, ""
        self.process.clear()
        self._calls.clear()
        text = await self._users(None) if self.scenario.has_user else self.scenario.question
        return Observation(role="user", text=text)

    async def step(self, action: Action) -> StepResult:
        """One message of the agent, and what the user or the classes say to it."""
        if not isinstance(action, Reply):
            told = "Error: there are no tools here. Write calls as text: [Name(key='value')]."
            observation = Observation(role="tool", text=told, call_id=action.id)
            return _going_on(observation, {"error": CallErrorKind.UNKNOWN_TOOL.value})
        number, self._said = self._said, self._said + 1
        # As in the protocol, whose first two turns are not looked at: neither may end the dialogue.
        if number and FINISHED in action.text:
            return await self._end(Observation(role="user", text=""))
        if self.scenario.has_user and not _is_for_classes(action.text):
            observation = Observation(role="user", text=await self._users(action.text))
        else:
            observation = Observation(role="tool", text=await self._executed(action.text))
        if self.fault or self._said == MESSAGES or (number and FINISHED in observation.text):
            return await self._end(observation)
        return _going_on(observation, {})

    async def aclose(self) -> None:
        """Nothing is left open: the classes live for one step."""

    async def _users(self, said: str | None) -> str:
        if self.user is None:
            raise InfrastructureError(f"{self.scenario.id} needs a simulated user; give one with --user-model")
        return await self.user.answer(said, seed=derive_seed(self._seed, "user", self._said))

    async def _executed(self, text: str) -> str:
        self.process.append(text)
        try:
            calls = read_calls(text)
        except CallError:
            return _NUDGE
        return str(await self._played([(call.name, call.arguments) for call in calls]))

    async def _played(self, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
        """Results of the calls, after all those before them; `states` is what they leave."""
        self._calls.append(calls)
        found = await self.classes.grade(
            classes=self.scenario.classes, configuration=self.scenario.configuration, messages=self._calls
        )
        if found.is_ours:
            raise InfrastructureError(f"the scenario classes of {self.scenario.id} cannot be made: {found.error}")
        if found.error:
            self.fault, self.states = f"a call broke the scenario: {found.error}"[:200], None
            return []
        self.states = found.value["states"]
        results: list[Any] = found.value["results"]
        return results

    async def _end(self, observation: Observation) -> StepResult:
        if self.states is None and not self.fault:
            await self._played([])
        reason = self.fault or check_states(self.states or (), self.scenario.gold)
        return StepResult(
            observation=observation, reward=float(not reason), terminated=True, truncated=False, info={"reason": reason}
        )


def _going_on(observation: Observation, info: Mapping[str, Any]) -> StepResult:
    return StepResult(observation=observation, reward=0.0, terminated=False, truncated=False, info=info)


def _is_for_classes(text: str) -> bool:
    """Whether a message holds brackets on one line and can be read as calls; else it is for the user."""
    if not re.search(r"\[.*\]", text):
        return False
    try:
        read_calls(text)
    except CallError:
        return False
    return True
