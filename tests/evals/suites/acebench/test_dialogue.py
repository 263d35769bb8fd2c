"""ACEBench's agent parts over scenario classes of our own: turns, users, budgets, and how a dialogue may end."""

from __future__ import annotations

import json

import pytest

from spade_agents.errors import ContextExhaustedError, UsageError
from spade_agents.policy.scripted import ScriptedPolicy
from spade_environments import ToolCall
from spade_evals.cli.tables import log_lines
from spade_evals.log import EvalLog
from spade_evals.reporting import evaluation_html
from spade_evals.rescoring import rescore_log
from spade_evals.runner import RunOptions, make_header, run_suite
from spade_evals.suite import Runtime
from spade_evals.suites.acebench.agent import open_classes
from spade_evals.suites.acebench.dialogue import FINISHED, MESSAGES, AceBenchEnv
from spade_evals.suites.acebench.parser import CallError, read_calls
from spade_evals.suites.acebench.states import check_states
from spade_evals.suites.acebench.suite import AceBenchSuite
from spade_evals.summary import summarise
from spade_evals.types import ModelFacts, SampleOutcome
from tests.evals.suites.acebench.oracle import Line
from tests.evals.suites.acebench.scenarios import GOLD, install, write_entries

RIGHT = ["[turn_on_wifi()]", "[order(product='tea', quantity=2)]", FINISHED]


@pytest.fixture
def data(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "cache")
    return write_entries(tmp_path / "data")


async def played(data, column, said, heard=("Do it.",), *, log=None, protocol="default"):
    """The one sample of a column, by an agent and a user who say lines in order; and what both were asked."""
    user = ModelFacts(target="scripted:user")
    suite = AceBenchSuite(part=column, data=data, user_model=user.target, protocol=protocol)
    assert list(suite.preflight()) == []
    loaded = suite.load(list(suite.columns))
    header = make_header(
        suite, loaded, loaded.tasks, model=ModelFacts(target="x"), user_model=user, seed=0, options=RunOptions()
    )
    made = EvalLog.create(log or data / "log", header)
    agent, simulated = Line(said), Line(heard)
    runtime = Runtime(policy=ScriptedPolicy(agent), user=ScriptedPolicy(simulated))
    await run_suite(suite, made, loaded.tasks, runtime)
    await suite.aclose()
    (sample,) = made.samples().latest.values()
    return sample, agent.asked, simulated.asked


@pytest.mark.parametrize("column", ["agent_multi_step", "agent_multi_turn"])
async def test_the_right_calls_reach_the_wanted_states(data, column):
    sample, asked, _ = await played(data, column, RIGHT)
    assert (sample.outcome, sample.score, sample.reason) == (SampleOutcome.SCORED, 1.0, "")
    assert json.loads(sample.response)["states"] == GOLD
    assert all(len(messages) == 2 for messages in asked), "the whole dialogue stands in one user message"
    assert "{'status': True}" in asked[1][1]


async def test_multi_step_is_asked_in_chinese_unless_told_otherwise_and_does_not_see_its_own_messages(data):
    _, asked, _ = await played(data, "agent_multi_step", RIGHT)
    assert asked[0][0].startswith("你是一个AI系统")
    assert asked[1][1].endswith("user:Order two teas.\nexecution result:[{'status': True}]\n\n")
    _, asked, _ = await played(data, "agent_multi_step", RIGHT, log=data / "again", protocol="english")
    assert asked[0][0].startswith("You are an AI system")
    with pytest.raises(UsageError, match="wanted one of: default, english"):
        AceBenchSuite(data=data, protocol="french")


async def test_in_multi_turn_prose_goes_to_the_user_and_calls_to_the_classes(data):
    said = ["Which product?", *RIGHT]
    sample, asked, users = await played(data, "agent_multi_turn", said, ["I want a drink.", "Two teas."])
    assert sample.score == 1.0
    assert asked[1][1].endswith("user:I want a drink.\nagent:Which product?\nuser:Two teas.\n")
    assert users[1][-3:] == ("Is there anything you need help with today?", "I want a drink.", "Which product?")
    assert [message.role for message in sample.messages[:4]] == ["system", "user", "assistant", "user"]


async def test_the_user_may_end_the_dialogue_but_not_at_its_first_answer(data):
    said = ["Anything?", "[turn_on_wifi()]", "Done?", "[order(product='tea', quantity=2)]"]
    sample, asked, _ = await played(data, "agent_multi_turn", said, ["Hi.", FINISHED, f"Yes, {FINISHED}."])
    assert len(asked) == 3
    assert sample.score == 0.0
    assert sample.reason == "FoodPlatform.orders differs"


async def test_a_dialogue_that_never_ends_is_graded_after_its_last_message(data):
    sample, asked, _ = await played(data, "agent_multi_turn", [*RIGHT[:2], "What else?"], ["Do it."])
    assert (len(asked), sample.score) == (MESSAGES, 1.0)
    sample, asked, _ = await played(data, "agent_multi_step", ["I do not know."], log=data / "again")
    assert (len(asked), sample.score) == (MESSAGES, 0.0)


async def test_a_call_that_breaks_the_classes_scores_0_and_says_so(data):
    sample, _, _ = await played(data, "agent_multi_step", [RIGHT[0], "[order(product={b'x': 1})]", *RIGHT[1:]])
    assert (sample.outcome, sample.score) == (SampleOutcome.SCORED, 0.0)
    assert sample.reason.startswith("a call broke the scenario")


async def test_private_names_attributes_and_wrong_arguments_are_told_to_the_agent(data):
    said = ["[__init__(), _load_scenario(scenario={}), wifi.__class__(), order(quality='best')]", *RIGHT]
    sample, asked, _ = await played(data, "agent_multi_step", said)
    assert sample.score == 1.0
    told = asked[1][1]
    assert told.count("is not defined") == 3
    assert "unexpected keyword argument" in told


async def test_a_prompt_beyond_the_context_scores_0_and_is_counted(data):
    suite = AceBenchSuite(part="agent_multi_step", data=data)
    (task,) = suite.load(list(suite.columns)).tasks
    sample = await suite.attempt(task, 0, Runtime(policy=full_policy()))
    assert (sample.score, sample.reason, sample.outcome) == (0.0, "context", SampleOutcome.SCORED)
    assert (await suite.grade(task, sample)).reason == "context"
    await suite.aclose()


async def test_a_user_whose_context_is_used_up_is_no_fault_of_the_agent(data):
    suite = AceBenchSuite(part="agent_multi_turn", data=data, user_model="x")
    (task,) = suite.load(list(suite.columns)).tasks
    runtime = Runtime(policy=ScriptedPolicy(Line(RIGHT)), user=full_policy())
    sample = await suite.attempt(task, 0, runtime)
    assert sample.outcome is SampleOutcome.INFRASTRUCTURE_ERROR
    assert "give a larger one" in sample.reason
    await suite.aclose()


def full_policy():
    def respond(_conversation, _random):
        raise ContextExhaustedError("the prompt has 9 tokens; 8 fit")

    return ScriptedPolicy(respond)


async def test_a_native_call_is_told_that_there_are_no_tools(data):
    suite = AceBenchSuite(part="agent_multi_step", data=data)
    (task,) = suite.load(list(suite.columns)).tasks
    classes = open_classes()
    env = AceBenchEnv(scenario=task.data["scenario"], classes=classes)
    assert (await env.reset(0)).text == "Order two teas."
    assert env.tools == ()
    result = await env.step(ToolCall(name="order", arguments={}))
    assert result.info == {"error": "unknown_tool"}
    await classes.aclose()


async def test_the_log_and_what_is_shown_of_it_name_the_user_and_the_classes(data):
    await played(data, "agent_multi_turn", RIGHT)
    log = EvalLog(data / "log")
    header = log.header()
    assert header.user_model == ModelFacts(target="scripted:user")
    assert len(header.data["scenario classes"]) == 64
    assert any("user scripted:user" in line for line in log_lines(log, summarise(header, log.samples())))
    assert "scripted:user" in evaluation_html([log])


async def test_a_log_is_graded_again_without_inference(data):
    sample, _, _ = await played(data, "agent_multi_turn", RIGHT)
    again = await rescore_log(EvalLog(data / "log"), data=data)
    assert sample.score == 1.0
    assert (again.graded, again.changed) == (1, 0)


def test_what_the_agent_parts_need_is_named(data, monkeypatch, tmp_path):
    told = {lack.column: lack.what for lack in AceBenchSuite(part="agent", data=data).preflight()}
    assert set(told) == {"agent_multi_turn"}
    assert "--user-model" in told["agent_multi_turn"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    told = {lack.column: lack.what for lack in AceBenchSuite(part="agent", data=data, user_model="x").preflight()}
    assert set(told) == {"agent_multi_step", "agent_multi_turn"}
    assert "spade-eval setup acebench" in told["agent_multi_step"]


def test_states_are_compared_as_the_protocol_compares_them():
    state = [{"A": {"orders": [1], "users": {"x": 1, "y": 2}}}]
    assert check_states(state, [{"A": {"orders": [1], "users": {"x": 1}}}]) == ""
    assert check_states(state, [{"A": {"orders": [2], "users": {"x": 1}}}]) == "A.orders differs"
    assert check_states(state, [{"A": {"orders": [1], "users": {"z": 1}}}]) == "A.users[z] differs"
    assert check_states(state, [{"A": {"orders": [1]}}]) == "A.users is not in the answer"
    assert check_states(state, []) == "1 classes; wanted 0"
    assert check_states(state, [{"Misspelt": {}}]) == ""
    wrong = [{"A": {"orders": [2], "users": {}}}, {"Misspelt": {}}]
    assert check_states([*state, {"B": {}}], wrong) == "A.orders differs"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[a()]", [("a", {})]),
        (" a(x=1), b()", [("a", {"x": 1}), ("b", {})]),
        ("[a(x=[1, 2])]", [("a", {"x": [1, 2]})]),
        ("[a(x=b(), y=c(z=1))]", [("a", {"x": "b()", "y": {"c": {"z": 1}}})]),
        ("[1, a()]", [("a", {})]),
        ("[__import__('os').system('ls')]", [("system", {})]),
    ],
)
def test_messages_are_read_leniently_and_never_run(text, calls):
    assert [tuple(call) for call in read_calls(text)] == calls


@pytest.mark.parametrize("text", ["", "Which one?", "[a(x='it's')]", "a(" + "[" * 3000])
def test_a_message_that_is_no_syntax_is_told(text):
    with pytest.raises(CallError):
        read_calls(text)
