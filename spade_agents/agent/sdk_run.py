"""`run_agent`: the agent outside training, an openai-agents `Agent` over MCP servers that prints as it goes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from agents import (
    Agent,
    FunctionToolResult,
    MaxTurnsExceeded,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolsToFinalOutputResult,
    TResponseInputItem,
    Usage,
    set_tracing_disabled,
)
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp

from spade_agents.agent.prompts import PromptStyle, opening_messages, prompt_style
from spade_agents.agent.sdk import Say, SpadeModel
from spade_agents.agent.sdk_items import content_text
from spade_agents.agent.served import ServedEpisode, served_among
from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.messages import Conversation
from spade_agents.policy.protocol import Policy, Sampling
from spade_environments import Observation, ToolSpec
from spade_environments.wording import counted

__all__ = ["AgentRun", "run_agent"]

INSTRUCTIONS: Final = (
    "You act through function calls. Read what is asked, call the tools you need one step at a time, and read each "
    "result before you go on. When all is done, answer with a plain message."
)
_MCP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """How a run ended, and what it took.

    Attributes:
        answer: the last message; of a served episode that is over, what its environment said last; `None` where the
            turns were used up.
        requests: completions that were asked for.
        prompt_tokens, completion_tokens: read and written in them.
    """

    answer: str | None
    requests: int
    prompt_tokens: int
    completion_tokens: int


async def run_agent(
    policy: Policy,
    task: str | None,
    servers: Sequence[str],
    *,
    sampling: Sampling | None = None,
    seed: int = 0,
    max_turns: int = 25,
    say: Say = lambda _who, _what: None,
) -> AgentRun:
    """Let a policy carry out a task with the tools of MCP servers; nothing is traced or sent anywhere else.

    Args:
        policy: the agent's model.
        task: the user's message. Without one, one of the servers must be a served environment (`spade serve`): its
            episode is played in the form that training gives a play, with the same prompts and tools. A message is then
            a reply to its user, and its end is the end.
        servers: each an address of streamable HTTP, or a command line that serves on stdio.
        sampling: of every message.
        seed: root of the messages' seeds.
        max_turns: messages of the agent, at most.
        say: told of every message, call and result as it happens.

    Raises:
        UsageError: a server that is neither, or no task and no server or several that set one.
        InfrastructureError: a server that cannot be reached.
        PolicyError: the policy writes no call that could be made.
    """
    set_tracing_disabled(True)
    model = _Listening(policy, sampling=sampling, seed=seed, say=say)
    async with AsyncExitStack() as stack:
        opened = [await _connected(stack, target) for target in servers]
        if task is not None:
            agent = Agent[None](name="spade", instructions=INSTRUCTIONS, model=model, mcp_servers=opened)
            run = _Run(agent, max_turns, say)
            answer = await run.until_message(task)
        else:
            episode = await served_among(opened)
            agent, first = await _player(model, episode, opened)
            run = _Run(agent, max_turns, say)
            answer = await run.until_over(first, episode, style=prompt_style(policy))
    return AgentRun(
        answer=answer,
        requests=run.used.requests,
        prompt_tokens=run.used.input_tokens,
        completion_tokens=run.used.output_tokens,
    )


class _Run:
    """Messages of one agent; the turns left, and what was used.

    Args:
        agent: of the SDK.
        turns: its messages, at most.
        say: told what the user says.
    """

    def __init__(self, agent: Agent[None], turns: int, say: Say) -> None:
        self.used = Usage()
        self._agent, self._turns, self._left, self._say = agent, turns, turns, say
        self._items: list[TResponseInputItem] = []

    async def until_message(self, said: str) -> str | None:
        """What the user says, and the message that the agent ends with; `None` where its turns are used up first."""
        self._say("user", said)
        self._items.append({"role": "user", "content": said})
        try:
            result = await Runner.run(
                self._agent, self._items, max_turns=self._left, run_config=RunConfig(tracing_disabled=True)
            )
        except MaxTurnsExceeded as error:
            self.used.add(error.run_data.context_wrapper.usage if error.run_data else Usage())
            self._say("error", f"{counted(self._turns, 'turn')} used up")
            return None
        self.used.add(result.context_wrapper.usage)
        self._items, self._left = result.to_input_list(), self._left - len(result.raw_responses)
        return str(result.final_output)

    async def until_over(self, said: str, episode: ServedEpisode, *, style: PromptStyle) -> str | None:
        """The same until the episode is over: each message is a reply, and what its user says comes next."""
        while True:
            message = await self.until_message(said)
            if message is None or episode.is_over:
                return message
            said = await episode.reply(message, style=style)
            if episode.is_over:
                self._say("user", said)
                return said
            if self._left < 1:
                self._say("error", f"{counted(self._turns, 'turn')} used up")
                return None


class _Listening(SpadeModel):
    """Also tells the results that it is given to read."""

    def _conversation(
        self, system: str | None, given: str | list[TResponseInputItem], tools: tuple[ToolSpec, ...]
    ) -> Conversation:
        conversation = super()._conversation(system, given, tools)
        for message in conversation.unrendered():
            if message.role == "tool":
                self._say("error" if message.call_id is None else "result", message.content)
        return conversation

    def tell_results(self, texts: Sequence[str]) -> None:
        """Results that no further request gives it to read."""
        for text in texts:
            self._say("result", text)


async def _player(model: _Listening, episode: ServedEpisode, servers: Sequence[MCPServer]) -> tuple[Agent[None], str]:
    """An agent in a served episode, and the first thing that its user says: both as in a play."""
    task, tools = Observation(role="user", text=await episode.task()), await episode.specs()
    system, first = opening_messages(task, style=prompt_style(model.policy), tools=tools)

    def ended(_context: RunContextWrapper[None], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        if episode.is_over:
            model.tell_results([content_text(result.output) for result in results])
        return ToolsToFinalOutputResult(is_final_output=episode.is_over, final_output=episode.said)

    offered = [episode if server is episode.inner else server for server in servers]
    agent = Agent[None](
        name="spade", instructions=system.content, model=model, mcp_servers=offered, tool_use_behavior=ended
    )
    return agent, first.content


async def _connected(stack: AsyncExitStack, target: str) -> MCPServer:
    words = shlex.split(target)
    if not words:
        raise UsageError("an empty --mcp; wanted an address (http://HOST:PORT/mcp) or a command that serves on stdio")
    server: MCPServer
    if target.startswith(("http://", "https://")):
        server = MCPServerStreamableHttp(
            params={"url": target, "timeout": _MCP_SECONDS}, client_session_timeout_seconds=_MCP_SECONDS
        )
    else:
        server = MCPServerStdio(
            params={"command": words[0], "args": words[1:]}, client_session_timeout_seconds=_MCP_SECONDS
        )
    try:
        return await stack.enter_async_context(server)
    except Exception as error:  # whatever the SDK or its transport raises, the server is not there
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        raise InfrastructureError(
            f"the MCP server {target!r} cannot be reached ({type(cause).__name__}: {cause}); see that it runs by itself"
        ) from error
