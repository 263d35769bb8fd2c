"""SpadeModel under the openai-agents SDK: tokens appended, unknown and broken calls answered, no run ended by them."""

from __future__ import annotations

import sys

import pytest
from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled

from spade_agents.agent.sdk import SpadeModel
from spade_agents.agent.sdk_run import run_agent
from spade_agents.errors import InfrastructureError, PolicyError, UsageError
from spade_agents.policy import ScriptedPolicy
from spade_agents.policy.endpoint import EndpointPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.trajectory import Role, sample_from
from tests.agents.policy.endpoint_server import calls, scripted_server
from tests.agents.tiny import tokenizer

set_tracing_disabled(True)


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


class Noting(ScriptedPolicy):
    """Says the texts in turn; keeps what it was asked and what it answered."""

    @classmethod
    def of(cls, *texts: str):
        def respond(conversation, source):
            spoken = sum(message.role == "assistant" for message in conversation.messages)
            return texts[min(spoken, len(texts) - 1)]

        policy = cls(respond, renderer=HermesRenderer(tokenizer()))
        policy.asked, policy.answered = [], []
        return policy

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        self.asked.append(conversation)
        self.answered.append(await super().complete(conversation, sampling, seed=seed, deadline=deadline))
        return self.answered[-1]


def agent(policy, *, said=None) -> Agent:
    @function_tool
    def add(first: int, second: int) -> str:
        """Add two numbers."""
        return str(first + second)

    model = SpadeModel(policy, say=lambda who, what: said.append((who, what)) if said is not None else None)
    return Agent(name="a", instructions="Add.", model=model, tools=[add])


async def run(policy, task="What is 2 and 3?", **options):
    return await Runner.run(agent(policy, **options), task, run_config=RunConfig(tracing_disabled=True))


async def test_a_run_appends_tokens_and_is_one_training_sample():
    policy = Noting.of(call("add", '{"first": 2, "second": 3}'), call("add", '{"first": 5, "second": 1}'), "It is 6.")
    result = await run(policy)
    assert result.final_output == "It is 6."
    assert [m.content for m in policy.asked[2].messages if m.role == "tool"] == ["5", "6"]
    sample = sample_from(policy.answered, advantage=1.0, group="g", role=Role.AGENT)
    assert sum(sample.mask) == sum(len(completion.token_ids) for completion in policy.answered)
    assert result.context_wrapper.usage.requests == 3


async def test_parallel_calls_stay_in_one_turn_and_results_find_their_calls():
    policy = Noting.of(call("add", '{"first": 1, "second": 1}') + call("add", '{"first": 2, "second": 2}'), "2, 4")
    assert (await run(policy)).final_output == "2, 4"
    said, *heard = policy.asked[1].messages[2:]
    assert [message.call_id for message in heard] == [each.id for each in said.calls]
    assert [message.content for message in heard] == ["2", "4"]


@pytest.mark.parametrize("broken", [call("fly"), "<tool_call>\n{oops}\n</tool_call>", call("add", '"{}"')])
async def test_a_call_that_cannot_be_made_is_answered_and_the_run_goes_on(broken):
    said = []
    policy = Noting.of(broken, call("add", '{"first": 2, "second": 3}'), "5")
    assert (await run(policy, said=said)).final_output == "5"
    errors = [what for who, what in said if who == "error"]
    assert len(errors) == 1 and errors[0].startswith("Error")
    assert errors[0] in [message.content for message in policy.asked[1].messages]
    sample_from(policy.answered, advantage=1.0, group="g", role=Role.AGENT)


async def test_a_broken_call_beside_a_good_one_is_told_with_its_result():
    policy = Noting.of(call("add", '{"first": 2, "second": 3}') + call("fly"), "5")
    assert (await run(policy)).final_output == "5"
    heard = [message.content for message in policy.asked[1].messages if message.role == "tool"]
    assert heard[0] == "5" and "unknown tool 'fly'" in heard[1]


async def test_a_policy_that_never_makes_a_call_that_can_be_made_is_given_up():
    with pytest.raises(PolicyError, match="in a row"):
        await run(Noting.of(call("fly")))


async def test_a_second_task_goes_on_from_the_kept_conversation():
    policy = Noting.of("One.", "Two.")
    chosen = agent(policy)
    config = RunConfig(tracing_disabled=True)
    first = await Runner.run(chosen, "First?", run_config=config)
    items = [*first.to_input_list(), {"role": "user", "content": "Second?"}]
    assert (await Runner.run(chosen, items, run_config=config)).final_output == "Two."
    assert policy.asked[1].tokens == policy.answered[0].prompt_ids + policy.answered[0].token_ids
    assert [message.content for message in policy.asked[1].messages] == ["Add.", "First?", "One.", "Second?"]


async def test_items_of_another_model_are_read_anew():
    policy = Noting.of("unused", "unused", "Six.")
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "What is 2 and 4?"}]},
        {"type": "function_call", "call_id": "x", "name": "add", "arguments": '{"first": 2, "second": 4}'},
        {"type": "function_call_output", "call_id": "x", "output": "6"},
        {"role": "assistant", "content": "It is 6."},
        {"role": "user", "content": "Say it in words."},
    ]
    assert (await run(policy, items)).final_output == "Six."
    (asked,) = policy.asked
    assert [message.role for message in asked.messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert asked.messages[2].calls[0].arguments == {"first": 2, "second": 4} and asked.tokens is None


async def test_a_streamed_run_gives_the_same_answer():
    policy = Noting.of(call("add", '{"first": 2, "second": 3}'), "5")
    result = Runner.run_streamed(agent(policy), "What is 2 and 3?", run_config=RunConfig(tracing_disabled=True))
    async for _ in result.stream_events():
        pass
    assert result.final_output == "5"


async def test_an_endpoint_is_a_model_too():
    def answer(number, body):
        return calls(("add", '{"first": 2, "second": 3}')) if number == 0 else {"content": "5"}

    async with scripted_server(answer) as server:
        policy = EndpointPolicy(server.url, "m")
        assert (await run(policy)).final_output == "5"
        await policy.aclose()
    told = server.bodies[1]["messages"]
    assert told[-1]["content"] == "5" and told[-1]["tool_call_id"] == told[-2]["tool_calls"][0]["id"]


async def test_a_catalogue_environment_is_played_over_mcp_with_a_transcript():
    said = []
    policy = Noting.of(call("get_task"), call("fly"), "I stop here.")
    program = "from spade_agents.cli import main; main()"
    server = f'{sys.executable} -c "{program}" serve ticket_desk --seed 3'
    done = await run_agent(policy, "Do it.", [server], say=lambda who, what: said.append((who, what)))
    assert done.answer == "I stop here."
    assert [who for who, _ in said] == ["user", "call", "result", "call", "error", "agent"]
    assert "ticket" in dict(said)["result"]
    assert done.requests == 3 and done.completion_tokens > 0


async def test_a_server_that_is_none_is_told():
    policy = Noting.of("x")
    with pytest.raises(InfrastructureError, match="cannot be reached"):
        await run_agent(policy, "Do it.", ["/nowhere/at/all serve"])
    with pytest.raises(UsageError, match="empty --mcp"):
        await run_agent(policy, "Do it.", ["  "])
