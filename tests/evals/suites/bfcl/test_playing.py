"""Conversations and grades through jailed scripts, with a pretended package in the place of bfcl-eval."""

from __future__ import annotations

import asyncio
import json

import pytest

from spade_agents.errors import InfrastructureError
from spade_agents.messages import Message
from spade_agents.policy.endpoint_wire import completion_of
from spade_agents.policy.model_files import renderer_of
from spade_agents.policy.open import model_folder
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.scripted import ScriptedPolicy
from spade_environments import ToolCall
from spade_evals.suite import Runtime
from spade_evals.suites.bfcl.checking import Checker
from spade_evals.suites.bfcl.environment import bfcl_python
from spade_evals.suites.bfcl.playing import Player
from spade_evals.suites.bfcl.suite import BfclSuite
from tests.evals.logs import sample
from tests.evals.suites.bfcl.pretend import pretend

TURNS = "multi_turn_miss_func"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        pretend(folder, patch)
        yield folder


@pytest.fixture
async def suite(place):
    suite = BfclSuite(part=f"{TURNS},memory_kv,simple_python")
    yield suite
    await suite.aclose()


def said(*steps, renderer=None):
    """A policy that says these, one a message: calls where a step is a list, else text."""
    messages = [
        Message(role="assistant", content="", calls=tuple(ToolCall(name=n, arguments=a) for n, a in step))
        if isinstance(step, list)
        else Message(role="assistant", content=step)
        for step in steps
    ]
    met = []

    def respond(conversation, _random):
        met.append(conversation)
        return messages[sum(message.role == "assistant" for message in conversation.messages)]

    return ScriptedPolicy(respond, renderer=renderer), met


def task_of(suite, column):
    return next(task for task in suite.load(list(suite.columns)).tasks if task.column == column)


async def test_published_answers_are_right_and_later_tools_are_offered_when_they_come(suite):
    task = task_of(suite, TURNS)
    gold = await suite.attempt(task, 0, Runtime(policy=ScriptedPolicy.gold()))
    assert (gold.score, gold.reason) == (1.0, "")
    policy, met = said([("add", {"amount": 2})], "done", [("take", {"amount": 1})], "done")
    played = await suite.attempt(task, 0, Runtime(policy=policy))
    assert json.loads(played.response) == [[[{"add": '{"amount": 2}'}], "done"], [[{"take": '{"amount": 1}'}], "done"]]
    assert (played.score, [tool.name for tool in met[1].tools]) == (1.0, ["add"])
    assert [tool.name for tool in met[2].tools] == ["add", "take"]
    assert [message.role for message in met[2].messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert (met[1].messages[-1].content, met[1].messages[-1].call_id) == ("2", met[1].messages[1].calls[0].id)
    again = await suite.grade(task, played)
    assert again.value == 1.0


async def test_sampled_tokens_are_kept_until_other_tools_are_offered_and_all_is_rendered_anew(suite):
    renderer = renderer_of(model_folder("nano")).renderer
    policy, met = said([("add", {"amount": 2})], "done", [("take", {"amount": 1})], "done", renderer=renderer)
    played = await suite.attempt(task_of(suite, TURNS), 0, Runtime(policy=policy))
    assert played.score == 1.0
    assert [conversation.tokens is None for conversation in met] == [True, False, True, False]
    assert played.tokens_in > played.tokens_out > 0


async def test_a_wrong_play_scores_0_for_the_packages_reason(suite):
    policy, _ = said([("add", {"amount": 3})], "done", "done")
    played = await suite.attempt(task_of(suite, TURNS), 0, Runtime(policy=policy))
    assert (played.score, played.reason) == (0.0, "multi_turn:state")


async def test_a_model_that_calls_programs_does_nothing(suite, tmp_path):
    mark = tmp_path / "mark"
    program = f"__import__('os').system('touch {mark}') or till.add"
    policy, met = said([(program, {"amount": 1})], [("open", {"file": str(mark), "mode": "w"})], "done", "done")
    played = await suite.attempt(task_of(suite, TURNS), 0, Runtime(policy=policy))
    assert played.score == 0.0
    assert "Error during execution" in met[1].messages[-1].content
    assert not mark.exists()


async def test_what_never_ends_or_ends_the_check_scores_0_and_others_go_on(suite):
    task = task_of(suite, TURNS)
    checker = Checker(python=bfcl_python(), cpu_seconds=1)
    right, endless, exiting = (
        [[[{"add": json.dumps({"amount": n})}]], [[{"take": '{"amount": 1}'}]]] for n in (2, 13, 14)
    )
    try:
        found = await asyncio.gather(*(checker.check(TURNS, task.id, one) for one in (right, exiting, endless, right)))
    finally:
        await checker.aclose()
    assert [verdict.error for verdict in found[::3]] == ["", ""]
    assert found[0].fault == found[3].fault == ""
    assert found[1].error == "SystemExit: the end"
    assert "after at most 1 s of CPU time" in found[2].error
    player = Player(python=bfcl_python(), cpu_seconds=1)
    policy, _ = said([("add", {"amount": 13})])

    async def ask(conversation, number):
        return await policy.complete(conversation, Sampling(), seed=number)

    try:
        play = await player.play(TURNS, task.id, ask, known=frozenset(task.data["known"]))
    finally:
        await player.aclose()
    assert (play.result, play.error) == (None, "cpu")


async def test_a_memory_question_meets_what_its_session_wrote_down(suite):
    task = task_of(suite, "memory_kv")
    met = []

    def respond(conversation, _random):
        met.append(conversation.messages[0].content)
        return "She is Ada." if len(met) == 1 else "You are Ada."

    runtime = Runtime(policy=ScriptedPolicy(respond))
    played = await suite.attempt(task, 0, runtime)
    assert met == ["You know: nothing", "You know: She is Ada."]
    assert (played.score, json.loads(played.response)) == (1.0, [["You are Ada."]])
    await suite.attempt(task, 0, runtime)
    assert len(met) == 3


async def test_an_empty_list_of_calls_beside_a_text_is_that_text(suite):
    body = {"choices": [{"message": {"content": "You are Ada.", "tool_calls": []}, "finish_reason": "stop"}]}

    class Served:
        info = ScriptedPolicy.silent().info

        async def complete(self, conversation, sampling, *, seed, deadline=None):
            return completion_of(json.dumps(body).encode(), Sampling())

    played = await suite.attempt(task_of(suite, "memory_kv"), 0, Runtime(policy=Served()))
    assert (played.score, json.loads(played.response)) == (1.0, [["You are Ada."]])


async def test_a_models_fault_is_an_infrastructure_error_and_the_next_play_goes_on(suite):
    class Down:
        info = ScriptedPolicy.silent().info

        async def complete(self, conversation, sampling, *, seed, deadline=None):
            raise InfrastructureError("the server answered 500")

    task = task_of(suite, TURNS)
    with pytest.raises(InfrastructureError, match="the server answered 500"):
        await suite.attempt(task, 0, Runtime(policy=Down()))
    assert (await suite.attempt(task, 0, Runtime(policy=ScriptedPolicy.gold()))).score == 1.0


async def test_single_turns_are_graded_by_the_package(suite):
    task = task_of(suite, "simple_python")
    right, wrong = (json.dumps({"calls": [{"name": "add", "arguments": {"amount": n}}]}) for n in (2, 3))
    assert (await suite.grade(task, sample(task.id, response=right))).value == 1.0
    assert (await suite.grade(task, sample(task.id, response=wrong))).reason == "ast:wrong"
