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


def test_the_suites_are_listed(capsys):
    code, out, _ = spade_eval(capsys, "list")
    assert code == 0
    assert "environments" in out
