"""`spade-eval` as a person types it."""

from __future__ import annotations

import json

import pytest

from spade_evals.cli import main


def spade_eval(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return stop.value.code or 0, printed.out, printed.err


def test_gold_plays_of_the_catalogue_all_win_and_a_log_is_left(tmp_path, capsys):
    arguments = ("run", "--model", "scripted:gold", "--suite", "environments:catalogue", "--out", tmp_path / "log")
    code, out, _ = spade_eval(capsys, *arguments, "--n", 1, "--limit", 3, "--json")
    assert code == 0
    (found,) = json.loads(out)
    assert found["summary"]["overall"] == 1.0
    assert found["summary"]["columns"]["win_rate"]["asked"] == 3
    code, out, _ = spade_eval(capsys, "show", tmp_path / "log", "--samples", 1)
    assert code == 0
    assert "win_rate" in out
    assert "[assistant]" in out
    code, _, err = spade_eval(capsys, *arguments, "--n", 1, "--limit", 3)
    assert code == 2
    assert "--resume to go on with that log" in err
    code, _, err = spade_eval(capsys, *arguments, "--n", 2, "--limit", 3, "--resume")
    assert code == 2
    assert "was made with columns.win_rate" in err
    assert spade_eval(capsys, *arguments, "--n", 1, "--limit", 3, "--resume")[0] == 0
    code, out, _ = spade_eval(capsys, "rescore", tmp_path / "log")
    assert code == 0
    assert "3 samples graded, 0 changed" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "nan", "--suite", "environments:catalogue"), "did you mean 'nano'?"),
        (("--model", "scripted:gold", "--suite", "enviroments"), "did you mean 'environments'?"),
        (("--model", "scripted:gold", "--suite", "environments"), "wants a pool"),
        (("--model", "scripted:gold", "--suite", "environments:nowhere"), "nowhere is no pool"),
        (("--model", "scripted:gold", "--suite", "environments:catalogue", "--protocol", "paper"), "has one protocol"),
    ],
)
def test_wrong_names_end_with_exit_code_2_and_leave_nothing(tmp_path, capsys, arguments, told):
    code, _, err = spade_eval(capsys, "run", *arguments, "--out", tmp_path / "log")
    assert code == 2
    assert told in err
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("run", "--suite", "environments:catalogue"), 2, "Missing option '--model'"),
        (("run", "--model", "nan", "--suite", "environments:catalogue"), 2, "did you mean 'nano'?"),
        (("run", "--model", "scripted:gold", "--suite", "acebench"), 3, "nothing was run"),
        (("show", "nowhere"), 2, "nowhere is no evaluation log"),
        (("show",), 2, "Missing argument"),
    ],
)
def test_an_error_under_json_is_json_too(tmp_path, capsys, arguments, code, told):
    out = ("--out", tmp_path / "log") if arguments[0] == "run" else ()
    found, printed, err = spade_eval(capsys, *arguments, *out, "--json")
    error = json.loads(printed)
    assert (found, error["exit_code"]) == (code, code)
    assert told in error["error"]
    assert told in err


def test_what_a_whole_suite_lacks_is_told_once(tmp_path, capsys):
    arguments = ("run", "--model", "scripted:gold", "--suite", "acebench", "--suite", "environments:catalogue")
    code, _, err = spade_eval(capsys, *arguments, "--out", tmp_path / "log")
    assert code == 3
    assert err.count("no data_all/data_en below --data") == 1
    arguments = (*arguments, "--limit", 1, "--n", 1, "--allow-missing")
    code, out, _ = spade_eval(capsys, *arguments, "--out", tmp_path / "log")
    assert code == 3
    assert out.count("no data_all/data_en below --data") == 1
    assert "all of it: not run: no data_all" in out
    assert "overall withheld: all of it was not run" in out


def test_no_commands_summary_is_cut_off_in_the_list_of_commands(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = spade_eval(capsys, "--help")
    assert code == 0
    commands = out.partition("Commands:")[2]
    assert "noise" in commands and "..." not in commands


def test_the_suites_are_listed(capsys):
    code, out, _ = spade_eval(capsys, "list")
    assert code == 0
    assert "environments" in out


def test_what_is_missing_is_named_before_anything_runs_and_is_taken_up_once_it_is_there(tmp_path, capsys):
    data = tmp_path / "data"
    data.mkdir()
    (data / "aime25.jsonl").write_text('{"prompt": "1 + 1?", "answer": 2}\n')
    (tmp_path / "two.jsonl").write_text(json.dumps({"text": "\\boxed{2}"}) + "\n")
    arguments = ("run", "--model", f"scripted:{tmp_path / 'two.jsonl'}", "--suite", "reasoning:aime25,aime26")
    arguments = (*arguments, "--data", data, "--n", 2, "--out", tmp_path / "log")
    code, _, err = spade_eval(capsys, *arguments)
    assert code == 3
    assert "aime26: no aime26.jsonl" in err
    assert not (tmp_path / "log").exists()
    code, out, _ = spade_eval(capsys, *arguments, "--allow-missing")
    assert code == 3
    assert "aime26: not run: no aime26.jsonl" in out
    assert "overall withheld: aime26 was not run" in out
    (data / "aime26.jsonl").write_text('{"prompt": "3 - 1?", "answer": 2}\n')
    code, out, _ = spade_eval(capsys, *arguments, "--resume", "--json")
    assert code == 0
    assert json.loads(out)[0]["summary"]["overall"] == 1.0
    (data / "aime25.jsonl").write_text('{"prompt": "2 + 1?", "answer": 3}\n')
    code, _, err = spade_eval(capsys, *arguments, "--resume")
    assert code == 2
    assert "was made with data.aime25.jsonl" in err
    code, _, err = spade_eval(capsys, "rescore", tmp_path / "log", "--data", data)
    assert code == 3
    assert "is not the file that" in err


def test_noise_runs_a_model_on_the_same_tasks_and_tells_the_smallest_difference(tmp_path, capsys):
    arguments = ("noise", "--model", "scripted:random", "--suite", "environments:catalogue", "--n", 2, "--limit", 3)
    code, out, _ = spade_eval(capsys, *arguments, "--runs", 2, "--out", tmp_path / "noise")
    assert code == 0
    assert "2 runs" in out
    assert "the smallest drop" in out
    again = spade_eval(capsys, "noise", tmp_path / "noise")
    assert again[1] == out
    code, _, err = spade_eval(capsys, "noise", tmp_path / "noise" / "draw-0")
    assert code == 2
    assert "at least two runs" in err


@pytest.mark.parametrize("command", [(), ("run",), ("compare",)])
def test_a_single_letter_asks_for_help_too(capsys, command):
    code, out, _ = spade_eval(capsys, *command, "-h")
    assert (code, out.split()[:2]) == (0, ["Usage:", "spade-eval"])
