"""`spade nano`: what it tells of a model, and that a build appears whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_agents.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["nano", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder whose weights are a header with two tensors of 6 and 4 numbers."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text('{"vocab_size": 3, "hidden_size": 2, "num_hidden_layers": 1}')
    (path / "spade.json").write_text('{"name": "tiny", "seed": 7}')
    first = {"dtype": "BF16", "shape": [3, 2], "data_offsets": [0, 12]}
    second = {"dtype": "BF16", "shape": [4], "data_offsets": [12, 20]}
    tensors = {"__metadata__": {}, "a": first, "b": second}
    header = json.dumps(tensors).encode()
    (path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return path


def test_info_counts_parameters_from_the_header(capsys: pytest.CaptureFixture[str], folder: Path):
    code, out, _ = run(capsys, "info", str(folder), "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["parameters"] == 10
    assert (facts["vocabulary"], facts["hidden"], facts["layers"]) == (3, 2, 1)
    assert (facts["name"], facts["seed"]) == ("tiny", 7)


def test_info_for_a_person_is_a_line_for_each_fact(capsys: pytest.CaptureFixture[str], folder: Path):
    code, out, _ = run(capsys, "info", str(folder))
    assert code == 0
    assert "parameters 10" in out.splitlines()


def test_info_for_a_person_aligns_long_names_and_rounds(capsys: pytest.CaptureFixture[str], folder: Path):
    (folder / "spade.json").write_text('{"template_family": "hermes", "trained": {"seconds": 2517.476633866001}}')
    code, out, _ = run(capsys, "info", str(folder))
    assert code == 0
    assert "layers          1" in out.splitlines()
    assert "trained         seconds 2,517" in out.splitlines()


def test_info_of_weights_that_are_none_is_a_clear_error(capsys: pytest.CaptureFixture[str], folder: Path):
    (folder / "model.safetensors").write_bytes(b"\x05\x00\x00\x00\x00\x00\x00\x00hello")
    code, _, err = run(capsys, "info", str(folder))
    assert code == 2
    assert "no safetensors file" in err


def test_info_of_nothing_is_a_clear_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, err = run(capsys, "info", str(tmp_path))
    assert code == 2
    assert "config.json" in err


def test_build_never_replaces_a_folder(capsys: pytest.CaptureFixture[str], folder: Path):
    before = sorted(path.name for path in folder.iterdir())
    code, _, err = run(capsys, "build", "--out", str(folder))
    assert code == 2
    assert "exists and is left as it is" in err
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.slow
def test_a_build_writes_a_folder_that_info_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, out, _ = run(capsys, "build", "--out", str(tmp_path / "nano"), "--steps", "2", "--no-measure")
    assert code == 0
    assert "model.start=" in out
    assert [path.name for path in tmp_path.iterdir()] == ["nano"]
    code, out, _ = run(capsys, "info", str(tmp_path / "nano"), "--json")
    assert code == 0
    assert 1_000_000 <= json.loads(out)["parameters"] <= 3_000_000
