"""Our reading and checking of ACEBench against evalscope's, entry by entry; run by `make test-eval DATA=DIR`."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

from spade_evals.suites.acebench.suite import NORMAL, SPECIAL, AceBenchSuite, _fault

DATA, ORACLES = (os.environ.get(name) for name in ("SPADE_EVAL_DATA", "SPADE_EVAL_ORACLES"))

pytestmark = pytest.mark.skipif(
    not (DATA and ORACLES), reason="needs ACEBench's data and evalscope: make test-eval DATA=DIR"
)


def oracle():
    """evalscope's parser and checker, loaded by file: its package needs what is not installed here."""
    folder = Path(ORACLES or "") / "evalscope" / "benchmarks" / "acebench"
    package = types.ModuleType("acebench_oracle")
    package.__path__ = [str(folder)]
    sys.modules["acebench_oracle"] = package
    loaded = []
    for name in ("utils", "parser", "checker"):
        spec = importlib.util.spec_from_file_location(f"acebench_oracle.{name}", folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        loaded.append(module)
    return loaded[1], loaded[2]


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
    parser, checker = oracle()
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
