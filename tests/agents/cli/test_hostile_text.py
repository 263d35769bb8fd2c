"""Every command that prints what others wrote: nothing of it steers the terminal, and JSON stays exact."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from spade_agents.cli import main
from spade_agents.rollout import EvalSummary, PartSummary
from spade_agents.selfplay import RunResult
from spade_agents.terminal import visible
from tests.agents.selfplay.scripted import run as scripted_run
from tests.agents.selfplay.scripted import settings

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b1m\u202e"
SOURCE = '''from spade_environments import TextEnv


class Evil(TextEnv):
    """Says things."""

    max_turns = 2

    def reset(self, seed):
        return "see \\u009b2J \\x7f this", {}

    def step(self, action):
        """Do \\u009b2J it."""
        return "no", 0.0, False, False, {}

    def solution(self):
        return ["x"]
'''


def spade(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def is_clean(text: str) -> bool:
    return visible(text) == text


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """An environment whose file, domain, hint, source and observations hold terminal escapes."""
    path = tmp_path / f"evil{EVIL}.py"
    path.write_text(SOURCE + f"# {EVIL}\n", encoding="utf-8")
    spec = {"name": "evil", "skill": "logical deduction", "domain": f"d{EVIL}", "difficulty": 0.1, "hint": f"h{EVIL}"}
    path.with_suffix(".spec.json").write_text(json.dumps(spec))
    return path


def test_show_writes_out_what_would_steer_the_terminal_and_json_stays_exact(
    capsys: pytest.CaptureFixture[str], evil: Path
):
    code, out, err = spade(capsys, "env", "show", str(evil), "--source")
    assert (code, err) == (0, "")
    assert is_clean(out)
    assert "d\\u001b]0;owned\\u0007" in out
    assert "see \\u009b2J" in out
    _, told, _ = spade(capsys, "env", "show", str(evil), "--source", "--json")
    facts = json.loads(told)
    assert (facts["domain"], facts["hint"]) == (f"d{EVIL}", f"h{EVIL}")
    assert facts["source"] == SOURCE + f"# {EVIL}\n"


def test_certify_writes_out_labels_evidence_and_repairs(capsys: pytest.CaptureFixture[str], evil: Path):
    code, out, err = spade(capsys, "env", "certify", str(evil), "--seeds", "2", "--no-save")
    assert code == 1
    assert is_clean(out)
    assert is_clean(err)
    assert "evil\\u001b]0;owned" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("env", "show", f"no{EVIL}"),
        ("env", "certify", f"no{EVIL}.py"),
        ("env", "new", f"no{EVIL}", "--base", "text"),
        ("corpus", "show", f"no{EVIL}"),
        ("nano", "info", f"no{EVIL}"),
        ("report", f"no{EVIL}"),
        ("train", f"no{EVIL}"),
        ("train", "nano", f"run.no{EVIL}=1"),
        ("train", "nano", f"run.name={EVIL}"),
        ("train", "--resume", f"no{EVIL}"),
        (f"no{EVIL}",),
        ("doctor", f"--no{EVIL}"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]).partition("\x1b")[0],
)
def test_an_error_repeats_no_escape_that_it_was_given(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]):
    code, out, err = spade(capsys, *arguments)
    assert code == 2
    assert is_clean(out + err)
    assert "owned" in err


def test_a_corpus_and_a_model_card_are_written_out(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    document = {"id": f"i{EVIL}\nforged", "text": f"t{EVIL}", "domain": EVIL}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(document) + "\n")
    code, out, _ = spade(capsys, "corpus", "show", str(tmp_path / "corpus.jsonl"))
    assert code == 0
    assert is_clean(out)
    assert "\nforged" not in out
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "spade.json").write_text(json.dumps({f"k{EVIL}": {"name": EVIL}}))
    code, out, _ = spade(capsys, "nano", "info", str(model))
    assert code == 0
    assert is_clean(out)
    _, out, _ = spade(capsys, "nano", "info", str(model), "--json")
    assert json.loads(out)[f"k{EVIL}"] == {"name": EVIL}


def test_settings_are_shown_in_a_form_that_is_read_back_exactly(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    import tomllib

    (tmp_path / "mine.toml").write_text('[evaluation.parts]\n"\\u009b1m" = "catalogue"\n')
    code, out, _ = spade(capsys, "train", str(tmp_path / "mine.toml"), "--show-settings", "--out", str(tmp_path / "r"))
    assert code == 0
    assert is_clean(out)
    assert tomllib.loads(out)["evaluation"]["parts"] == {"\x9b1m": "catalogue"}


async def evaluate(policy, *, step: int, seed: int) -> EvalSummary:
    part = PartSummary(plays=4, missing=0, win_rate=0.5, low=0.1, high=0.9)
    return EvalSummary(step=step, parts={f"part{EVIL}": part})


def test_the_summary_of_a_run_writes_out_its_parts(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    from spade_agents.cli.runs import conclude

    asyncio.run(scripted_run(tmp_path / f"r{EVIL}", settings("run.rollouts=1"), evaluator=evaluate))
    conclude(RunResult(path=tmp_path / f"r{EVIL}", finished=True, rollouts=1), as_json=False)
    out = capsys.readouterr().out
    assert is_clean(out)
    assert "part\\u001b]0;owned" in out


def test_a_terminal_whose_encoding_lacks_characters_is_no_reason_to_fail(tmp_path: Path, evil: Path):
    import os
    import subprocess

    rooms = (".", "tools", "evals", "environments")
    environment = {
        **os.environ, "PYTHONIOENCODING": "latin-1",
        "PYTHONPATH": os.pathsep.join(str(Path.cwd() / room) for room in rooms),
    }  # fmt: skip
    evil.with_suffix(".spec.json").write_text(
        json.dumps({"name": "evil", "skill": "logical deduction", "domain": "ü", "difficulty": 0.1, "hint": "日本"})
    )
    command = [sys.executable, "-c", "from spade_agents.cli import main; main()", "env", "show", str(evil)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"\\u65e5\\u672c" in done.stdout


def test_commands_print_through_what_cleans_their_text():
    """The exceptions print JSON, the version, or pages whose parts were cleaned before they were coloured."""
    folder = Path("spade_agents/cli")
    found = {path.name for path in folder.rglob("*.py") if "typer.echo(" in path.read_text()}
    assert found == {"output.py", "app.py", "certifying.py", "importing.py"}
    assert not [path for path in folder.rglob("*.py") if re.search(r"^\s*print\(", path.read_text(), re.MULTILINE)]
