"""`run_agent`: the agent outside training, an openai-agents `Agent` over MCP servers that prints as it goes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from agents import Agent, MaxTurnsExceeded, RunConfig, Runner, TResponseInputItem, Usage, set_tracing_disabled
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp

from spade_agents.agent.sdk import Say, SpadeModel
from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.messages import Conversation
from spade_agents.policy.protocol import Policy, Sampling
from spade_environments import ToolSpec
from spade_environments.wording import counted

__all__ = ["AgentRun", "run_agent"]

INSTRUCTIONS: Final = (
    "You act through function calls. Read what is asked, call the tools you need one step at a time, and read each "
    "result before you go on. When all is done, answer with a plain message."
)
_MCP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """How a run ended: the last message, or `None` where its turns were used up; and what it took."""

    answer: str | None
    requests: int
    prompt_tokens: int
    completion_tokens: int


async def run_agent(
    policy: Policy,
    task: str,
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
        task: the user's message.
        servers: each an address of streamable HTTP, or a command line that serves on stdio.
        sampling: of every message.
        seed: root of the messages' seeds.
        max_turns: messages of the agent, at most.
        say: told of every message, call and result as it happens.

    Raises:
        UsageError: a server that is neither.
        InfrastructureError: a server that cannot be reached.
        PolicyError: the policy writes no call that could be made.
    """
    set_tracing_disabled(True)
    model = _Listening(policy, sampling=sampling, seed=seed, say=say)
    async with AsyncExitStack() as stack:
        opened = [await _connected(stack, target) for target in servers]
        agent = Agent(name="spade", instructions=INSTRUCTIONS, model=model, mcp_servers=opened)
        say("user", task)
        try:
            result = await Runner.run(agent, task, max_turns=max_turns, run_config=RunConfig(tracing_disabled=True))
            answer: str | None = str(result.final_output)
            used = result.context_wrapper.usage
        except MaxTurnsExceeded as error:
            say("error", f"{counted(max_turns, 'turn')} used up")
            answer = None
            used = error.run_data.context_wrapper.usage if error.run_data else Usage()
    return AgentRun(
        answer=answer,
        requests=used.requests,
        prompt_tokens=used.input_tokens,
        completion_tokens=used.output_tokens,
    )


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
