"""What of a model's calls reaches bfcl-eval, which evaluates them as Python; and published answers as actions."""

from __future__ import annotations

import pytest

from spade_environments import ToolCall, ToolSpec
from spade_evals.suites.bfcl.calls import gold_messages, step_of, without_programs

KNOWN = frozenset({"cd", "sort", "sum"})


def evaluated(step):
    """A step as the package spells it, and what it evaluates to where it reads `cd` and nothing else of ours."""
    import json

    found = []
    for call in step:
        for name, arguments in call.items():
            keywords = ",".join(f"{key}={value!r}" for key, value in json.loads(arguments).items())
            try:
                found.append(eval(f"{name}({keywords})", {"cd": lambda **said: said}))
            except Exception as error:
                found.append(error)
    return found


def test_a_completion_is_its_calls_or_else_its_text():
    assert step_of("beside", [ToolCall(name="cd", arguments={"folder": "é"})]) == [{"cd": '{"folder": "\\u00e9"}'}]
    assert step_of("only text", []) == "only text"
    assert without_programs("__import__('os')", KNOWN) == "__import__('os')"


def test_plain_calls_of_known_and_unknown_tools_stay_as_they_are():
    step = [{"cd": '{"folder": "a"}'}, {"no_such_tool": "{}"}, {"sum": '{"numbers": [1]}'}, {"cd": "no json"}]
    assert without_programs(step, KNOWN) == step


@pytest.mark.parametrize(
    "call",
    [
        {"__import__('os').system('touch mark') or cd": "{}"},
        {"(lambda: open('mark', 'w'))": "{}"},
        {"open": '{"file": "mark", "mode": "w"}'},
        {"ｏpen": '{"file": "mark", "mode": "w"}'},
        {"execute_multi_turn_func_call": "{\"func_call_list\": [\"open('mark', 'w')\"]}"},
        {"importlib.import_module": '{"name": "os"}'},
        {"cd": "{\"folder=open('mark', 'w'), x\": 1}"},
        {"class_instance._load_scenario": '{"scenario": {}}'},
    ],
)
def test_a_call_that_is_a_program_is_an_unknown_function(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (result,) = evaluated(without_programs([call], KNOWN))
    assert isinstance(result, NameError)
    assert not (tmp_path / "mark").exists()


def test_refused_calls_stay_refused_when_they_are_graded_again():
    once = without_programs([{"a.b('c')": "{}"}, {"exit": "{}"}], KNOWN)
    assert without_programs(once, KNOWN) == once == [{"a_b__c___": "{}"}, {"exit_": "{}"}]


def test_a_published_answer_becomes_a_message_with_a_turns_calls_and_an_empty_one_after_it():
    tools = [
        ToolSpec(name="mv", description="", parameters={"properties": {"source": {}, "destination": {}}}),
        ToolSpec(name="ls", description="", parameters={"properties": {"a": {}}}),
    ]
    acting, *silent = gold_messages([["mv('a.txt', destination='b')", "ls(a=True)"], []], tools)
    assert acting.calls == (
        ToolCall(name="mv", arguments={"source": "a.txt", "destination": "b"}),
        ToolCall(name="ls", arguments={"a": True}),
    )
    assert [(message.content, message.calls) for message in silent] == [("", ()), ("", ())]
    with pytest.raises(ValueError, match="is no call"):
        gold_messages([["a.b()"]], tools)
