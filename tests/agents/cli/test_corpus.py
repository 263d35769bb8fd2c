"""`spade corpus`: what it writes and what it tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_agents.cli import main
from spade_agents.designer.corpus import load_corpus


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["corpus", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_a_built_corpus_is_read_back_and_never_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "new" / "corpus.jsonl"
    code, out, _ = run(capsys, "build", "--out", str(path), "--words", "60")
    assert (code, str(path) in out) == (0, True)
    before = load_corpus(path)
    assert len(before) > 100
    assert all(len(document.text.split()) <= 60 for document in before.documents)
    code, _, err = run(capsys, "build", "--out", str(path))
    assert (code, "exists" in err) == (2, True)
    assert load_corpus(path) == before


def test_the_built_in_corpus_is_shown(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "show", "--json", "--count", "2")
    found = json.loads(out)
    assert (code, len(found["first"])) == (0, 2)
    assert found["documents"] >= 100


def test_a_missing_corpus_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, err = run(capsys, "show", str(tmp_path / "none.jsonl"))
    assert (code, "does not exist" in err) == (2, True)


def test_a_corpus_that_cannot_be_written_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "build", "--out", str(tmp_path / "file" / "c.jsonl"))
    assert (code, "cannot be written" in err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
