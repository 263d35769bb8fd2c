"""Our reading and checking of ACEBench against evalscope's, entry by entry; run by `make test-eval DATA=DIR`."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from spade_evals.suites.acebench.environment import evalscope_folder, scenarios_folder
from spade_evals.suites.acebench.suite import NORMAL, SPECIAL, AceBenchSuite, _fault
from tests.evals.suites.acebench.oracle import Oracle

DATA = os.environ.get("SPADE_EVAL_DATA")

pytestmark = pytest.mark.skipif(
    not DATA or scenarios_folder() is None, reason="needs ACEBench's data and evalscope: make test-eval DATA=DIR"
)


def theirs(parser, checker, column, step, response):
    """Whether evalscope calls a response right; `None` where it breaks on it."""
    try:
        if column in SPECIAL:
            return checker.check_special_answer(response, step["gold"], column)["valid"]
        calls = parser.decode_calls(response, column)
        return checker.check_normal_answer(step["functions"], calls, step["gold"], column)["valid"]
    except parser.CallFormatError:
        return False
    except (KeyError, TypeError, AttributeError, IndexError):
        return None


def gold_response(column, gold):
    if "incomplete" in column:
        return str(
            ["; ".join(f"Missing necessary parameters ({', '.join(v)}) for the api ({k})" for k, v in gold.items())]
        )
    if "error_param" in column:
        return str(
            [f"There is incorrect value ({', '.join(map(str, v))}) for the parameters ({k})" for k, v in gold.items()]
        )
    if column in SPECIAL:
        return str([gold])
    answer = gold[0] if isinstance(gold, list) else gold
    names = {key: key if not key[-1:].isdigit() else key.rpartition("_")[0] or key for key in answer}
    return (
        "["
        + ", ".join(f"{names[k]}({', '.join(f'{a}={v!r}' for a, v in args.items())})" for k, args in answer.items())
        + "]"
    )


def spoilt(response, source):
    """A response changed in one of the ways that models err."""
    ways = (
        lambda t: t.replace("'", '"', 2),
        lambda t: t[: source.randrange(len(t) + 1)],
        lambda t: "Sure: " + t,
        lambda t: t.replace("=", "_x=", 1),
        lambda t: t.replace("True", "'true'").replace("False", "true"),
        lambda t: "".join(c if not c.isdigit() else str((int(c) + 1) % 10) for c in t),
        lambda t: t.replace("[", "[extra(), ", 1),
        lambda t: t.replace("parameters", "values").replace("(", "((", 1),
        lambda t: t.lower(),
    )
    return source.choice(ways)(response)


def test_gold_answers_are_right_but_for_the_known_ones():
    """What is left: dialogues' answers whose nested lists lose their spaces, and two published answers with a fault."""
    suite = AceBenchSuite(part=",".join((*NORMAL, *SPECIAL)), data=Path(DATA or ""))
    wrong = Counter(
        task.column
        for task in suite.load(list(suite.columns)).tasks
        for step in task.data["steps"]
        if _fault(task.column, step, gold_response(task.column, step["gold"]))
    )
    assert wrong == {
        "normal_single_turn_parallel_function": 1,
        "normal_multi_turn_user_adjust": 13,
        "normal_multi_turn_user_switch": 14,
        "normal_preference": 1,
    }


def test_both_say_the_same_of_gold_and_of_spoilt_answers():
    oracle = Oracle(evalscope_folder())
    parser, checker = oracle.parser, oracle.checker
    suite = AceBenchSuite(part=",".join((*NORMAL, *SPECIAL)), data=Path(DATA or ""))
    source = random.Random(0)
    differing, compared, right = [], 0, 0
    for task in suite.load(list(suite.columns)).tasks:
        for step in task.data["steps"]:
            gold = gold_response(task.column, step["gold"])
            for response in (gold, *(spoilt(gold, source) for _ in range(3))):
                ours = _fault(task.column, step, response) == ""
                other = theirs(parser, checker, task.column, step, response)
                compared += 1
                right += ours
                if ours != bool(other):
                    differing.append((task.id, ours, other, response[:200]))
    print(f"{compared} responses compared, {right} of them right by both")
    assert differing == []
