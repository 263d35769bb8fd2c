"""lm-eval's tasks by name, on one of our own in its format; run by `make test-lm`, which has lm-eval."""

from __future__ import annotations

import json

import pytest

from spade_evals.cli import main

pytest.importorskip("lm_eval")

TASK = """task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/sums.jsonl}}
output_type: generate_until
test_split: test
fewshot_split: test
num_fewshot: 1
description: "Add."
doc_to_text: "Q: {{question}}\\nA:"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
generation_kwargs: {until: ["\\n"], max_gen_toks: 16}
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "#### (\\\\d+)"}, {function: take_first}]}
  - {name: loose, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    rows = [{"question": f"1 + {k}?", "answer": str(1 + k)} for k in (1, 2, 3)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sums.yaml").write_text(TASK.replace("FOLDER", str(tmp_path)))
    return tmp_path


def run(folder, capsys, text, suite, *more):
    (folder / "said.jsonl").write_text(json.dumps({"text": text}) + "\n")
    arguments = ["--model", f"scripted:{folder / 'said.jsonl'}", "--suite", suite, "--data", str(folder)]
    with pytest.raises(SystemExit) as stop:
        main(["run", *arguments, "--out", str(folder / "log"), *more])
    return stop.value.code or 0, *capsys.readouterr()


def test_prompts_stop_strings_filters_and_metric_are_those_of_the_task(folder, capsys):
    code, out, _ = run(folder, capsys, "I say 2\n#### 3", "lm:sums,sums/loose", "--json")
    assert code == 0
    columns = json.loads(out[out.index("[") :])[0]["summary"]["columns"]
    assert {name: round(column["mean"], 4) for name, column in columns.items()} == {"sums": 0.0, "sums/loose": 0.3333}
    samples = [json.loads(line) for line in (folder / "log" / "samples.jsonl").read_text().splitlines()]
    system, user, _ = samples[0]["messages"]
    assert system["content"] == "Add."
    assert user["content"].count("Q: ") == 2
    header = json.loads((folder / "log" / "eval.json").read_text())
    assert header["columns"]["sums"]["sampling"] == {"temperature": 0.0, "max_tokens": 16, "top_p": 1.0, "top_k": 0}
    assert header["versions"]["lm-eval"] != "not installed"
    with pytest.raises(SystemExit) as stop:
        main(["rescore", str(folder / "log"), "--data", str(folder)])
    assert not stop.value.code
    assert "6 samples graded, 0 changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("suite", "code", "told"),
    [
        ("lm:sum", 2, "did you mean"),
        ("lm:mmlu", 2, "which is a group"),
        ("lm:hellaswag", 2, "needs the probabilities of given texts"),
        ("lm:humaneval", 2, "runs the model's code by itself"),
        ("lm:sums/middle", 2, "has no filter 'middle'; it has: strict, loose"),
        ("lm:gsm8k", 3, "may need a network for its data"),
        ("lm", 2, "wants a task of lm-eval"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_runs(folder, capsys, suite, code, told):
    found, _, err = run(folder, capsys, "2", suite)
    assert found == code
    assert told in err
    assert not (folder / "log").exists()
