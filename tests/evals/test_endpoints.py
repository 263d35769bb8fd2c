"""An endpoint that fails on 30 % of the tasks in every way that servers fail."""

from __future__ import annotations

import pytest

from spade_agents.errors import ContextExhaustedError, InfrastructureError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.endpoint import EndpointPolicy, EndpointSettings
from spade_agents.policy.protocol import Sampling
from spade_evals.endpoints import StrictPolicy, reach
from spade_evals.runner import run_suite
from spade_evals.suite import Runtime
from tests.agents.policy.endpoint_server import scripted_server
from tests.evals.test_runner import Doubles, begun

FAULTS = {"1": "hang", "4": "500", "7": "empty", "10": "html", "13": "half", "16": {"tool_calls": []}}
HALVED = [1000, 500, 250, 125, 62, 31, 15, 7]
FAST = EndpointSettings(retries=0, request_seconds=0.5, backoff_seconds=0.01)


def answering(faults):
    def answer(number, body):
        task = body["messages"][-1]["content"]
        return faults.get(task, {"content": str(2 * int(task)), "tool_calls": []})

    return answer


async def test_no_sample_that_met_a_fault_scores_and_resuming_redoes_only_those(tmp_path):
    suite = Doubles(20)
    async with scripted_server(answering(FAULTS)) as server:
        policy = EndpointPolicy(server.url, "m", settings=FAST)
        log, tasks, runtime = begun(tmp_path / "log", suite, StrictPolicy(policy))
        summary = await run_suite(suite, log, tasks, runtime)
        await policy.aclose()
    column = summary.columns["doubles"]
    assert (column.scored, column.infrastructure, column.unscorable) == (13, 6, 1)
    assert column.scored + column.infrastructure + column.unscorable == column.asked == 20
    assert column.mean == 1.0, "what scored is right, `tool_calls: []` beside a text included"
    assert summary.overall is None
    assert not summary.is_complete
    assert {one.id for one in log.samples().latest.values() if one.score is None} == {*FAULTS, "0"}

    async with scripted_server(answering({})) as server:
        policy = EndpointPolicy(server.url, "m", settings=FAST)
        again = await run_suite(suite, log, tasks, Runtime(policy=StrictPolicy(policy)))
        await policy.aclose()
        assert sorted(body["messages"][-1]["content"] for body in server.bodies) == sorted(FAULTS)
    assert again.overall == 1.0


TOLD = {
    "messages": "400 This model's maximum context length is 100 tokens. However, you requested 1090 tokens (90 in the "
    "messages, 1000 in the completion).",
    "input": "400 'max_tokens' is too large: 1000. This model's maximum context length is 100 tokens and your request "
    "has 90 input tokens (1000 > 100 - 90).",
    "nothing": "400 context_length_exceeded",
}


@pytest.mark.parametrize(("told", "asked"), [("messages", [1000, 10]), ("input", [1000, 10]), ("nothing", HALVED)])
async def test_only_a_prompt_that_does_not_fit_by_itself_is_beyond_the_context(told, asked):
    def refusing(prompt):
        return lambda _number, body: TOLD[told] if body["max_tokens"] > 100 - prompt else {"content": "yes"}

    conversation = Conversation(messages=(Message(role="user", content="fits?"),))
    async with scripted_server(refusing(90)) as server:
        policy = EndpointPolicy(server.url, "m", settings=FAST)
        found = await StrictPolicy(policy).complete(conversation, Sampling(max_tokens=1000), seed=0)
        server.answer = refusing(100)
        with pytest.raises(ContextExhaustedError):
            await StrictPolicy(policy).complete(conversation, Sampling(max_tokens=1000), seed=0)
        await policy.aclose()
        bodies = [body["max_tokens"] for body in server.bodies]
    assert found.text == "yes"
    assert bodies[: len(asked)] == asked
    assert bodies[-1] == 1


async def test_an_address_where_nothing_answers_is_found_before_a_token_is_spent():
    with pytest.raises(InfrastructureError, match=r"nothing answers at http://127\.0\.0\.1:9"):
        await reach("http://127.0.0.1:9/v1#m")
    with pytest.raises(UsageError, match="is no address"):
        await reach("gopher://x/v1#m")
