"""An endpoint that fails on 30 % of the tasks in every way that servers fail."""

from __future__ import annotations

import pytest

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.policy.endpoint import EndpointPolicy, EndpointSettings
from spade_evals.endpoints import StrictPolicy, reach
from spade_evals.runner import run_suite
from spade_evals.suite import Runtime
from tests.agents.policy.endpoint_server import scripted_server
from tests.evals.test_runner import Doubles, begun

FAULTS = {"1": "hang", "4": "500", "7": "empty", "10": "html", "13": "half", "16": {"tool_calls": []}}
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


async def test_an_address_where_nothing_answers_is_found_before_a_token_is_spent():
    with pytest.raises(InfrastructureError, match=r"nothing answers at http://127\.0\.0\.1:9"):
        await reach("http://127.0.0.1:9/v1#m")
    with pytest.raises(UsageError, match="is no address"):
        await reach("gopher://x/v1#m")
