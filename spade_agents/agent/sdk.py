"""SpadeModel: any of our policies as the model of an openai-agents `Agent`, its tokens kept from turn to turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from agents import (
    AgentOutputSchemaBase,
    Handoff,
    Model,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    Tool,
    TResponseInputItem,
    Usage,
)
from agents.items import TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response_prompt_param import ResponsePromptParam

from spade_agents.agent.sdk_items import identity, item_messages, tool_specs, usage_of
from spade_agents.errors import PolicyError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Completion
from spade_environments import ToolCall, ToolSpec

__all__ = ["Say", "SpadeModel"]

_TRIES: Final = 4
"""Messages in a row without a single call that could be made, before the run is given up."""

Say = Callable[[str, str], None]
"""Told who speaks (`user`, `thought`, `agent`, `call`, `result`, `error`) and what, as it happens."""


class SpadeModel(Model):
    """A policy behind the SDK's model interface.

    What was sampled stays as it was: a request that continues an answer of this model is answered from the conversation
    kept with it, tokens included. A call to a tool that is not there, or one that cannot be read, is answered here with
    an error that the policy reads, because the SDK would end the run.

    Args:
        policy: continues conversations.
        sampling: of every message.
        seed: root of the messages' seeds.
        say: told of messages and calls.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        sampling: Sampling | None = None,
        seed: int = 0,
        say: Say = lambda _who, _what: None,
    ) -> None:
        self.policy = policy
        self.sampling = sampling or Sampling()
        self.seed = seed
        self._say = say
        self._asked = 0
        self._kept: dict[str, tuple[Conversation, list[Message]]] = {}

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> ModelResponse:
        """See `agents.Model`.

        Raises:
            PolicyError: several messages in a row hold no call that could be made.
        """
        conversation = self._conversation(system_instructions, input, tool_specs(tools))
        usage = Usage()
        for _ in range(_TRIES):
            self._asked += 1
            seed = derive_seed(self.seed, "agent", self._asked)
            completion = await self.policy.complete(conversation, self._chosen(model_settings), seed=seed)
            usage.add(usage_of(completion))
            self._tell(completion)
            known = {tool.name for tool in conversation.known_tools}
            completion = self._named(completion)
            calls = [call for call in completion.calls if call.name in known]
            errors = _errors(completion, known)
            conversation = _said(conversation, completion)
            if calls or not errors:
                output = self._output(completion, calls)
                for item in output:
                    self._kept[identity(item)] = (conversation, errors)
                return ModelResponse(output=output, usage=usage, response_id=None)
            for error in errors:
                self._say("error", error.content)
            conversation = conversation.then(*errors)
        raise PolicyError(f"{self.policy.info.name} wrote {_TRIES} messages in a row without a call that can be made")

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """One event, the whole message: a policy answers in one piece."""
        answer = await self.get_response(
            system_instructions, input, model_settings, tools, output_schema, handoffs, tracing
        )
        response = Response(
            id=f"spade_{self._asked}",
            created_at=0.0,
            model=self.policy.info.name,
            object="response",
            output=answer.output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")

    def _chosen(self, settings: ModelSettings) -> Sampling:
        """Our sampling, where the agent's settings do not say otherwise."""
        sampling = self.sampling
        if settings.temperature is not None:
            sampling = replace(sampling, temperature=settings.temperature)
        if settings.top_p is not None:
            sampling = replace(sampling, top_p=settings.top_p)
        if settings.max_tokens is not None:
            sampling = replace(sampling, max_tokens=settings.max_tokens)
        return sampling

    def _conversation(
        self, system: str | None, given: str | list[TResponseInputItem], tools: tuple[ToolSpec, ...]
    ) -> Conversation:
        """What was kept with the last of our own answers among the items, and what came since; else all items anew."""
        items: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        known = [index for index, item in enumerate(items) if identity(item) in self._kept]
        if not known:
            opening = [] if system is None else [Message(role="system", content=system)]
            return Conversation(messages=(*opening, *item_messages(items)), tools=tools)
        conversation, errors = self._kept[identity(items[known[-1]])]
        fresh = tuple(tool for tool in tools if tool.name not in {known.name for known in conversation.known_tools})
        heard = item_messages(items[known[-1] + 1 :])
        return replace(conversation.then(*heard, *errors), unlocked=conversation.unlocked + fresh)

    def _output(self, completion: Completion, calls: Sequence[ToolCall]) -> list[TResponseOutputItem]:
        """The message as the SDK takes it, each part under an identity that no other message uses."""
        if calls:
            return [
                ResponseFunctionToolCall(
                    type="function_call",
                    call_id=call.id,
                    name=call.name,
                    arguments=json.dumps(dict(call.arguments), ensure_ascii=False),
                )
                for call in calls
            ]
        text = ResponseOutputText(type="output_text", text=completion.text, annotations=[])
        return [
            ResponseOutputMessage(
                id=f"msg_{self._asked}", type="message", role="assistant", status="completed", content=[text]
            )
        ]

    def _named(self, completion: Completion) -> Completion:
        """The same with calls under identities that no other message uses: their results come back under them."""
        named = (replace(call, id=f"call_{self._asked}_{index}") for index, call in enumerate(completion.calls))
        return replace(completion, calls=tuple(named))

    def _tell(self, completion: Completion) -> None:
        if completion.thinking:
            self._say("thought", completion.thinking)
        if completion.text:
            self._say("agent", completion.text)
        for call in completion.calls:
            self._say("call", f"{call.name}({json.dumps(dict(call.arguments), ensure_ascii=False)})")


def _errors(completion: Completion, known: set[str]) -> list[Message]:
    """What the policy reads for calls that are not made."""
    texts = [broken.message for broken in completion.broken]
    texts += [
        f"unknown tool {call.name!r}; the tools are {', '.join(sorted(known)) or 'none'}"
        for call in completion.calls
        if call.name not in known
    ]
    if not texts and not completion.calls and completion.finish == "length":
        return [
            Message(role="user", content="Error: the message was cut off by its length limit. Write a shorter one.")
        ]
    return [Message(role="tool", content=f"Error: {text}") for text in texts]


def _said(conversation: Conversation, completion: Completion) -> Conversation:
    tokens = None
    if completion.prompt_ids is not None and completion.token_ids is not None:
        tokens = completion.prompt_ids + completion.token_ids
    said = Message(role="assistant", content=completion.text, calls=completion.calls, thinking=completion.thinking)
    return conversation.then(said, tokens=tokens)
