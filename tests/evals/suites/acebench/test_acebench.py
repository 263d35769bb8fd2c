"""ACEBench's parser, checker and suite on entries of our own in its format."""

from __future__ import annotations

import json

import pytest

from spade_agents.policy.scripted import ScriptedPolicy
from spade_evals.log import EvalLog
from spade_evals.runner import RunOptions, make_header, run_suite
from spade_evals.suite import Runtime
from spade_evals.suites.acebench.checker import check_calls, check_special
from spade_evals.suites.acebench.parser import CallError, ProseCall, first_brackets, parse_calls
from spade_evals.suites.acebench.suite import AGENT, AceBenchSuite
from spade_evals.types import ModelFacts

BOOK = {
    "name": "book",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer"},
            "extras": {"type": "array", "items": {"type": "string"}},
            "guest": {"type": "object"},
        },
        "required": ["city"],
    },
}
GOLD = {"book": {"city": "New York", "nights": 2, "extras": ["sea view"], "guest": {"name": "Ann"}}}


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[a()]", [("a", {})]),
        ("[a.b(x=-1, y='é', z=None)]", [("a.b", {"x": -1, "y": "é", "z": None})]),
        ("[a(x=[1, {'k': (2, 3)}]), b(y=true)]", [("a", {"x": [1, {"k": (2, 3)}]}), ("b", {"y": "true"})]),
        ("[a(x=__import__('os').system('ls'))]", [("a", {"x": {"system": {}}})]),
        ("[a(x=1 + 1)]", [("a", {"x": "1 + 1"})]),
    ],
)
def test_calls_are_read_and_never_run(text, calls):
    assert parse_calls(text) == tuple(ProseCall(*call) for call in calls)


@pytest.mark.parametrize(
    "text", ["", "a()", "[1]", "[a(]", "[" * 5000, "['text']", "[a() for b in c]", "\0", "x" * 60_000]
)
def test_anything_else_is_an_error_of_form(text):
    with pytest.raises(CallError):
        parse_calls(text)


def test_the_first_balanced_brackets_are_taken():
    assert first_brackets("well ] [a(x=[1])] [b()]") == "[a(x=[1])]"
    assert first_brackets("[a(") is None


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("[book(city='New York', nights=2, extras=['sea view'], guest={'name': 'Ann'})]", True),
        ("[book(city='new-york')]", True),
        ("[book(city='New York, USA')]", True),
        ("[book(city='New York', nights=7)]", True),
        ("[book(city='Boston')]", False),
        ("[book(nights=2)]", False),
        ("[book(city='New York', nights='2')]", False),
        ("[book(city='New York', extras=['sea view', 'bath'])]", False),
        ("[book(city='New York', guest={'name': 'Bob'})]", False),
        ("[book(city='New York', pool=True)]", False),
        ("[book(city='New York'), book(city='New York')]", False),
        ("[order(city='New York')]", False),
        ("[book()]", False),
    ],
)
def test_the_rules_of_the_protocol(text, right):
    assert (check_calls([BOOK], parse_calls(text), GOLD) == "") is right


def test_repeated_calls_and_several_gold_answers():
    twice = {"book": {"city": "Rome"}, "book_1": {"city": "Oslo"}}
    assert check_calls([BOOK], parse_calls("[book(city='Oslo'), book(city='Rome')]"), twice) == ""
    assert check_calls([BOOK], parse_calls("[book(city='Oslo'), book(city='Oslo')]"), twice) != ""
    assert (
        check_calls(
            [BOOK], parse_calls("[book(city='Oslo')]"), [{"book": {"city": "Rome"}}, {"book": {"city": "Oslo"}}]
        )
        == ""
    )


def test_special_answers_must_point_out_what_is_wrong():
    missing = {"book": ["city", "nights"]}
    assert (
        check_special(
            '["Missing necessary parameters (city, nights) for the api (book)"]', missing, "special_incomplete"
        )
        == ""
    )
    assert check_special('["Missing necessary parameters (city) for the api (book)"]', missing, "special_incomplete")
    wrong = {"city": ["Nowhere"]}
    assert (
        check_special('["There is incorrect value (Nowhere) for the parameters (city)"]', wrong, "special_error_param")
        == ""
    )
    assert check_special("[book(city='Nowhere')]", wrong, "special_error_param")
    gold = "Due to the limitations of the function, I cannot solve this problem."
    assert check_special(f'["{gold}"]', gold, "special_irrelevant") == ""
    assert check_special("[book(city='x')]", gold, "special_irrelevant")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data_all" / "data_en"
    (folder / "possible_answer").mkdir(parents=True)

    def write(name, rows):
        asked = [{"id": key, "question": f"user: {key}", "function": [BOOK], "time": ""} for key, _ in rows]
        for path, lines in (
            (folder, asked),
            (folder / "possible_answer", [{"id": k, "ground_truth": g} for k, g in rows]),
        ):
            (path / f"data_{name}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))

    write(
        "normal_similar_api",
        [(f"normal_similar_api_{k}", {"book": {"city": city}}) for k, city in enumerate(("Rome", "Oslo"))],
    )
    steps = [(f"normal_multi_turn_user_adjust_{d}_{s}", {"book": {"city": city}}) for d, s, city in
             ((0, 0, "Rome"), (0, 1, "Rome"), (1, 0, "Rome"), (1, 1, "Oslo"))]  # fmt: skip
    write("normal_multi_turn_user_adjust", steps)
    return tmp_path


async def test_a_dialogue_counts_where_all_its_steps_are_right(data, tmp_path):
    suite = AceBenchSuite(part="normal_similar_api,normal_multi_turn_user_adjust", data=data)
    assert list(suite.preflight()) == []
    loaded = suite.load(list(suite.columns))
    header = make_header(
        suite, loaded, loaded.tasks, model=ModelFacts(target="x"), user_model=None, seed=0, options=RunOptions()
    )
    log = EvalLog.create(tmp_path / "log", header)
    policy = ScriptedPolicy(lambda _conversation, _random: "[book(city='Rome')]")
    summary = await run_suite(suite, log, loaded.tasks, Runtime(policy=policy))
    assert {name: (column.mean, column.asked) for name, column in summary.columns.items()} == {
        "normal_similar_api": (0.5, 2),
        "normal_multi_turn_user_adjust": (0.5, 2),
    }
    assert summary.overall == 0.5
    lost = log.samples().latest["normal_multi_turn_user_adjust_1", 0]
    assert lost.reason == "step 1: wrong city"


def test_data_that_is_not_there_is_named(data):
    lacking = AceBenchSuite(data=None).preflight()
    assert {lack.column for lack in lacking} == set(AceBenchSuite().columns)
    assert "--data" in lacking[0].what
    some = {lack.column: lack.what for lack in AceBenchSuite(data=data).preflight()}
    assert set(AGENT) <= set(some)
    assert "normal_similar_api" not in some
