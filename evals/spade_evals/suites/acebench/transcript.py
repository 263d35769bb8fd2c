"""TranscriptPolicy: a policy asked as ACEBench asks, the whole dialogue in one user message, anew at every turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Policy, PolicyInfo, Sampling
from spade_agents.trajectory import Completion
from spade_evals.suites.acebench import dialogue_prompts as prompts
from spade_evals.suites.acebench.dialogue import Scenario

__all__ = ["TranscriptPolicy"]


class TranscriptPolicy:
    """Rewrites the conversation that the episode loop keeps into the protocol's two messages.

    Calls are prose here: a completion's native ones are no part of the protocol and are dropped, and a message that was
    cut by its length is read as it stands; `was_cut` tells that there was one.
    """

    def __init__(self, policy: Policy, scenario: Scenario, *, chinese: bool) -> None:
        self._policy = policy
        self._scenario = scenario
        self._chinese = chinese
        self.was_cut = False

    @property
    def info(self) -> PolicyInfo:
        return self._policy.info

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """As the policy within, on `asked`."""
        found = await self._policy.complete(
            Conversation(messages=self.asked(conversation.messages)), sampling, seed=seed, deadline=deadline
        )
        self.was_cut = self.was_cut or found.finish == "length"
        return replace(found, calls=(), broken=(), finish="stop")

    def asked(self, messages: Iterable[Message]) -> tuple[Message, Message]:
        """System prompt and dialogue, as the protocol has them."""
        scenario = self._scenario
        lines = [self._line(message) for message in messages if message.role != "system"]
        fields = {"functions": str(scenario.functions), "history": "".join(lines)}
        if scenario.has_user:
            system, user = prompts.TURN_SYSTEM, prompts.TURN_USER
            system += prompts.TRAVEL_POLICY if "Travel" in scenario.classes else ""
            system += prompts.PHONE_POLICY if "BaseApi" in scenario.classes else ""
        elif self._chinese:
            system, user = prompts.STEP_SYSTEM_CHINESE, prompts.STEP_USER_CHINESE
        else:
            system, user = prompts.STEP_SYSTEM, prompts.STEP_USER
        return Message(role="system", content=system), Message(role="user", content=user.format(**fields))

    def _line(self, message: Message) -> str:
        """In multi_step the agent does not see its own messages: so it is upstream, and so it is measured."""
        if message.role == "assistant":
            return f"agent:{message.content}\n" if self._scenario.has_user else ""
        if message.role == "tool":
            return f"{'execution' if self._scenario.has_user else 'execution result'}:{message.content}\n"
        return f"user:{message.content}\n"
