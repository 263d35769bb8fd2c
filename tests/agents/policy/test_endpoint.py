"""EndpointPolicy against a scripted server: what is asked, what is read, what is tried again, what is refused."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from spade_agents.errors import ContextExhaustedError, InfrastructureError, PolicyError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy import Sampling, model_folder, open_policy
from spade_agents.policy.endpoint import EndpointPolicy, EndpointSettings
from spade_agents.policy.endpoint_client import AnswerError
from spade_agents.policy.endpoint_wire import completion_of
from spade_environments import ToolCall, ToolSpec
from tests.agents.policy.endpoint_server import FAULTS, calls, scripted_server

ACT = ToolSpec(name="act", description="Act.", parameters={"type": "object", "properties": {}})
PULL = ToolSpec(name="pull", description="Pull.", parameters={"type": "object", "properties": {}})
GO = Conversation(messages=(Message(role="system", content="s"), Message(role="user", content="go")), tools=(ACT,))
QUICK = EndpointSettings(backoff_seconds=0.001, request_seconds=0.2, retries=2, prompt_price=1.0, completion_price=10.0)


async def ask(server, conversation=GO, *, settings=QUICK, sampling=None, deadline=None, seed=3):
    policy = EndpointPolicy(server.url, "m", "secret", settings)
    try:
        return await policy.complete(conversation, sampling or Sampling(), seed=seed, deadline=deadline), policy
    finally:
        await policy.aclose()


async def test_a_request_carries_messages_tools_sampling_seed_and_key():
    async with scripted_server(lambda n, body: {"content": "hi"}) as server:
        sampling = Sampling(temperature=0.0, top_p=0.9, top_k=5, max_tokens=7)
        completion, policy = await ask(server, sampling=sampling)
        await ask(server, Conversation(messages=GO.messages))
    body, plain = server.bodies
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert body["tools"][0]["function"]["name"] == "act"
    asked = {key: body[key] for key in ("model", "temperature", "top_p", "top_k", "max_tokens", "seed")}
    assert asked == {"model": "m", "temperature": 0.0, "top_p": 0.9, "top_k": 5, "max_tokens": 7, "seed": 3}
    assert "Bearer secret" in server.headers[0] and "secret" not in repr(policy.client)
    assert "top_k" not in plain and "tools" not in plain
    assert (completion.text, completion.finish, completion.temperature) == ("hi", "stop", 0.0)
    assert (completion.prompt_ids, completion.token_ids, completion.logprobs) == (None, None, None)
    assert (policy.info.has_tokens, policy.info.name) == (False, "m")


async def test_what_was_spent_is_counted():
    async with scripted_server(lambda n, body: "500" if n == 0 else {"content": "hi"}) as server:
        completion, policy = await ask(server)
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (11, 3)
    cost = policy.cost
    assert (cost.requests, cost.retries, cost.prompt_tokens, cost.completion_tokens) == (2, 1, 11, 3)
    assert cost.price == pytest.approx((11 * 1.0 + 3 * 10.0) / 1e6)


async def test_calls_are_read_and_results_go_back_under_ids_of_their_own():
    async with scripted_server(
        lambda n, body: calls(("act", '{"a": 1}'), ("act", "")) if n == 0 else {"content": "ok"}
    ) as server:
        first, _ = await ask(server)
        said = Message(role="assistant", content=first.text, calls=first.calls)
        heard = tuple(Message(role="tool", content=f"r{n}", call_id=f"call_{n}") for n in range(2))
        lost = Message(role="tool", content="Error: unreadable")
        longer = GO.then(said).then(*heard).then(said).then(heard[0], lost)
        await ask(server, longer)
    assert [(c.name, dict(c.arguments), c.id) for c in first.calls] == [
        ("act", {"a": 1}, "call_0"),
        ("act", {}, "call_1"),
    ]
    assert first.finish == "calls"
    told = server.bodies[1]["messages"]
    ids = [call["id"] for message in told for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 4
    assert [m.get("tool_call_id") for m in told if m["role"] == "tool"] == [ids[0], ids[1], ids[2]]
    assert told[-1] == {"role": "user", "content": "Error: unreadable"}
    assert told[2]["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'


async def test_unlocked_tools_are_offered_too():
    async with scripted_server(lambda n, body: {"content": "hi"}) as server:
        await ask(server, Conversation(messages=GO.messages, tools=(ACT,), unlocked=(PULL,)))
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["act", "pull"]


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        (calls(("act", "{oops")), ["not_json"]),
        (calls(("act", '"{}"')), ["double_encoded"]),
        (calls(("act", "[1]")), ["bad_call"]),
        (calls(("act", '{"a": 1}{"a": 2}')), ["not_json"]),
        (calls(("", "{}")), ["bad_call"]),
        ({**calls(("act", "{}"), ("act", '{"a')), "finish_reason": "length"}, ["truncated"]),
        ({"content": "<tool_call>\n{oops}\n</tool_call>"}, ["not_json"]),
    ],
)
async def test_a_broken_call_is_named_and_never_raised(message, kinds):
    async with scripted_server(lambda n, body: message) as server:
        completion, _ = await ask(server)
    assert [broken.kind for broken in completion.broken] == kinds


async def test_a_server_without_a_tool_parser_leaves_calls_and_thoughts_in_the_text():
    text = '<think>\nhm\n</think>\n\nI act.\n<tool_call>\n{"name": "act", "arguments": {}}\n</tool_call>'
    async with scripted_server(lambda n, body: {"content": text}) as server:
        completion, _ = await ask(server)
    assert (completion.text, completion.thinking) == ("I act.", "hm")
    assert completion.calls == (ToolCall(name="act", arguments={}, id="call_0"),)


async def test_a_thought_told_apart_is_kept_apart_and_a_cut_reply_is_cut():
    message = {"content": "yes", "reasoning_content": "why", "finish_reason": "length"}
    async with scripted_server(lambda n, body: message) as server:
        completion, _ = await ask(server)
    assert (completion.text, completion.thinking, completion.finish) == ("yes", "why", "length")


@pytest.mark.parametrize("fault", [*FAULTS, "429"])
async def test_a_failed_attempt_is_made_again(fault):
    async with scripted_server(lambda n, body: fault if n < 2 else {"content": "hi"}) as server:
        completion, policy = await ask(server)
    assert (completion.text, policy.cost.retries, len(server.bodies)) == ("hi", 2, 3)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_lasting_failure_is_an_infrastructure_error(fault):
    async with scripted_server(lambda n, body: fault) as server:
        with pytest.raises(InfrastructureError, match="failed 3 times"):
            await ask(server)
    assert len(server.bodies) == 3


async def test_a_body_of_another_form_is_an_infrastructure_error():
    for message in ({"tool_calls": 3}, {"content": 7}):
        async with scripted_server(lambda n, body, message=message: message) as server:
            with pytest.raises(InfrastructureError, match="no chat completion"):
                await ask(server)


async def test_nothing_listening_is_an_infrastructure_error_and_no_address_is_a_usage_error():
    async with scripted_server(lambda n, body: "500") as server:
        pass
    with pytest.raises(InfrastructureError, match="failed 3 times"):
        await ask(server)
    server.url = "ftp://nowhere"
    with pytest.raises(UsageError, match="no address"):
        await ask(server)


async def test_a_hanging_server_is_left_at_the_deadline():
    started = time.monotonic()
    slow = EndpointSettings(request_seconds=3600)
    async with scripted_server(lambda n, body: "hang") as server:
        with pytest.raises(InfrastructureError, match="deadline"):
            await ask(server, settings=slow, deadline=started + 0.1)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        ("400 This model's maximum context length is 100 tokens", ContextExhaustedError),
        ("401 no key", UsageError),
        ("404 no such model", UsageError),
        ("400 unknown parameter top_k", PolicyError),
    ],
)
async def test_what_no_retry_mends_is_not_tried_again(refusal, error):
    async with scripted_server(lambda n, body: refusal) as server:
        with pytest.raises(error) as raised:
            await ask(server)
    assert type(raised.value) is error
    assert len(server.bodies) == 1


async def test_no_more_requests_than_allowed_are_in_flight():
    async with scripted_server(lambda n, body: {"content": "hi"}) as server:
        policy = EndpointPolicy(server.url, "m", "", EndpointSettings(concurrency=3))
        await asyncio.gather(*(policy.complete(GO, Sampling(), seed=n) for n in range(12)))
        await policy.aclose()
    assert len(server.bodies) == 12 and 1 <= server.most_alive <= 3
    assert all("authorization" not in head.lower() for head in server.headers)


async def test_an_endpoint_is_opened_by_url_and_model_and_cannot_be_trained(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from the environment")
    async with scripted_server(lambda n, body: {"content": "hi"}) as server:
        async with open_policy(f"{server.url}/#org/name") as policy:
            assert (await policy.complete(GO, Sampling(), seed=0)).text == "hi"
            with pytest.raises(PolicyError, match="cannot be trained"):
                policy.load_weights({}, 1)
        assert server.bodies[0]["model"] == "org/name"
        assert "Bearer from the environment" in server.headers[0]
    with pytest.raises(UsageError, match="cannot be trained"):
        model_folder(f"{server.url}#m")
    for target in (server.url, f"{server.url}#", "ftp://x/v1#m"):
        with pytest.raises(UsageError, match="URL#MODEL"):
            async with open_policy(target):
                pass


@pytest.mark.parametrize("count", [-1, 2**63, 10**30, 1.5, "many"])
def test_a_count_of_tokens_that_cannot_be_is_no_answer_and_no_price(count):
    body = {"choices": [{"message": {"content": "hi"}}], "usage": {"prompt_tokens": 1, "completion_tokens": count}}
    with pytest.raises(AnswerError, match="no chat completion"):
        completion_of(json.dumps(body).encode(), sampling=Sampling())
