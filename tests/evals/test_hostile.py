"""A model that answers with a program, in the form that each suite reads, does nothing: in every suite."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import tempfile
from pathlib import Path

import pytest

from spade_evals.cli import main
from spade_evals.suites import suite_names
from spade_evals.suites.bfcl.environment import bfcl_python
from spade_evals.suites.reasoning import COLUMNS
from tests.evals.suites.acebench.scenarios import install, write_entries

SUITES = [
    "environments:catalogue",
    *(f"reasoning:{name}" for name in COLUMNS),
    "acebench:normal_similar_api,special_incomplete",
    "acebench:agent",
    pytest.param(
        "bfcl_v4:simple_python,parallel,multi_turn_base",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(bfcl_python() is None, reason="needs bfcl-eval: spade-eval setup bfcl_v4"),
        ],
    ),
    pytest.param(
        "lm:sums",
        marks=pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="needs lm-eval: make test-lm"),
    ),
]


@pytest.fixture
def mark():
    """A file that everybody could write."""
    folder = Path(tempfile.mkdtemp(prefix="spade-mark-"))
    folder.chmod(0o777)
    yield folder / "mark"
    shutil.rmtree(folder)


def hostile_model(path, mark, *, as_calls):
    """Messages that hold a program wherever something might be looked for, as text or as native calls."""
    program = f"__import__('os').system('touch {mark}')"
    text = f"[{program}]"
    if not as_calls:
        text += f"\n```python\n{program}\n```\n<answer>{program}</answer> #### {program}\n\\boxed{{{program}}}"
    calls = [{"name": program, "arguments": {program: program}}, {"name": "f", "arguments": {"x": program}}]
    line = json.dumps({"text": "", "calls": calls} if as_calls else {"text": text})
    path.write_text(f"{line}\n" * 30)
    return f"scripted:{path}"


def write_data(folder):
    """A task or two for every column that reads files."""
    for name in ("aime25", "aime26"):
        (folder / f"{name}.jsonl").write_text('{"prompt": "1 + 1?", "answer": "x + 1"}\n')
    with (folder / "gpqa_diamond.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Record ID", "Question", "Correct Answer", *(f"Incorrect Answer {k}" for k in (1, 2, 3))])
        rows.writerow(["r", "Which?", "right", "a", "b", "c"])
    tests = [{"input": "1\n", "output": "1\n", "testtype": "stdin"}]
    row = {"question_id": "1", "question_content": "Echo.", "public_test_cases": json.dumps(tests)}
    (folder / "test6.jsonl").write_text(json.dumps(row) + "\n")
    write_entries(folder)
    english = folder / "data_all" / "data_en"
    function = {"name": "book", "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"]}}
    for name, gold in (("normal_similar_api", {"book": {"city": "Rome"}}), ("special_incomplete", {"book": ["city"]})):
        asked = {"id": f"{name}_0", "question": "Book.", "function": [function], "time": ""}
        (english / f"data_{name}.json").write_text(json.dumps(asked) + "\n")
        answer = {"id": f"{name}_0", "ground_truth": gold}
        (english / "possible_answer" / f"data_{name}.json").write_text(json.dumps(answer) + "\n")
    (folder / "sums.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    (folder / "sums.yaml").write_text(
        f"task: sums\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder / 'sums.jsonl'}}}}}\n"
        "output_type: generate_until\ntest_split: test\ndoc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
        "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    )


@pytest.mark.parametrize("suite", SUITES)
def test_a_program_as_an_answer_does_nothing(suite, tmp_path, mark, capsys, monkeypatch):
    write_data(tmp_path)
    if suite == "acebench:agent":
        install(monkeypatch, tmp_path / "cache")
    for as_calls in (False, True):
        model = hostile_model(tmp_path / "hostile.jsonl", mark, as_calls=as_calls)
        arguments = ["run", "--model", model, "--user-model", model, "--suite", suite, "--data", str(tmp_path)]
        arguments += ["--limit", "2", "--n", "1", "--out", str(tmp_path / f"log-{as_calls}"), "--json"]
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        printed = capsys.readouterr()
        assert not stop.value.code, printed.err
        (found,) = json.loads(printed.out)
        assert {column["mean"] for column in found["summary"]["columns"].values()} == {0.0}
    assert not mark.exists()


def test_no_suite_is_left_out():
    named = [one if isinstance(one, str) else one.values[0] for one in SUITES]
    assert {name.partition(":")[0] for name in named} == set(suite_names())
