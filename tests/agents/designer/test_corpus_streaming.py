"""Datasets by their name, through the real library, from a hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spade_agents.designer.corpus import load_corpus
from spade_agents.designer.corpus_build import read_manifest
from tests.agents.designer.hub import Hub, serving
from tests.agents.designer.test_corpus_build import prose

pytest.importorskip("datasets")

ROWS = "".join(json.dumps({"question": prose(n), "answer": prose(n + 1)}) + "\n" for n in range(9)).encode()
ROWS += (json.dumps({"question": "x" * 5000, "answer": ""}) + "\n").encode() * 16_000
CARD = b"---\nlicense: mit\n---\n# Notes of a harbour\n"


def notes() -> Hub:
    return Hub(name="harbour/notes", files={"README.md": CARD, "train.jsonl": ROWS})


def build(hub: Hub, folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """`spade corpus build` in a process of its own: the library reads the hub's address when it is imported."""
    told = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "home"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    program = "import sys; from spade_agents.cli import main; main(sys.argv[1:])"
    arguments = ["corpus", "build", name, "--rows", "9", "--out", str(folder / "corpus.jsonl")]
    fields = ["--field", "question", "--field", "answer", "--domain", "notes"]
    return subprocess.run(
        [sys.executable, "-c", program, *arguments, *fields],
        env={**os.environ, **told, "HF_HUB_DISABLE_TELEMETRY": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_dataset_is_found_by_its_name_and_read_no_further_than_it_is_needed(tmp_path):
    with serving(notes()) as hub:
        done = build(hub, tmp_path, "harbour/notes")
    assert done.returncode == 0, done.stderr
    corpus = load_corpus(tmp_path / "corpus.jsonl")
    assert [document.text for document in corpus.documents] == [f"{prose(n)}\n\n{prose(n + 1)}" for n in range(9)]
    assert {(document.source, document.domain) for document in corpus.documents} == {("harbour/notes", "notes")}
    assert read_manifest(tmp_path / "corpus.jsonl")["counts"]["rows"] == 9
    assert hub.sent < len(ROWS) / 2, "streamed, not downloaded"


def test_a_dataset_that_is_not_there_is_told_and_nothing_is_written(tmp_path):
    with serving(notes()) as hub:
        done = build(hub, tmp_path, "harbour/letters")
    assert (done.returncode, "the dataset 'harbour/letters' cannot be opened" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "corpus.jsonl").exists()
