"""A loose file is read with the spec beside it, and every way to get it wrong says what to do."""

from __future__ import annotations

import json
import os

import pytest

from spade_environments import Skill, SpecError
from spade_environments.loader import load_spec, spec_path

SOURCE = "from spade_environments import TextEnv\n\nraise SystemExit('this source must not run')\n"


def written(folder, fields, source=SOURCE):
    path = folder / "walk.py"
    path.write_text(source)
    if fields is not None:
        spec_path(path).write_text(json.dumps(fields))
    return path


def test_a_file_and_its_spec_make_an_environment_spec(tmp_path):
    path = written(tmp_path, {"name": "walk", "skill": "optimization", "difficulty": 0.25, "hint": "look first"})
    spec = load_spec(path)
    assert (spec.name, spec.skill, spec.difficulty, spec.hint) == ("walk", Skill.OPTIMIZATION, 0.25, "look first")
    assert spec.source == SOURCE
    assert spec.provenance == {"kind": "file"}
    assert load_spec(str(path)) == spec


def test_what_a_spec_writes_without_its_source_is_read_back(tmp_path):
    spec = load_spec(written(tmp_path, {"name": "walk", "skill": "optimization"}))
    spec_path(tmp_path / "walk.py").write_text(spec.to_json(source=False))
    assert load_spec(tmp_path / "walk.py") == spec


def test_a_loose_file_never_passes_for_the_catalogue(tmp_path):
    fields = {"name": "walk", "skill": "optimization", "provenance": {"kind": "catalogue", "parent": "abc"}}
    assert load_spec(written(tmp_path, fields)).provenance == {"kind": "file", "parent": "abc"}


def test_another_provenance_is_kept(tmp_path):
    fields = {"name": "walk", "skill": "optimization", "provenance": {"kind": "designed", "rollout": 3}}
    assert load_spec(written(tmp_path, fields)).provenance == {"kind": "designed", "rollout": 3}


def test_a_missing_spec_says_how_to_make_one(tmp_path):
    with pytest.raises(SpecError, match=r'no walk\.spec\.json beside it; write one .*"name": "walk".*optimization'):
        load_spec(written(tmp_path, None))


def test_a_missing_file_a_folder_and_another_suffix_are_errors(tmp_path):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(SpecError, match="there is no file"):
        load_spec(tmp_path / "none.py")
    with pytest.raises(SpecError, match="is a directory"):
        load_spec(tmp_path / "folder.py")
    with pytest.raises(SpecError, match=r"wanted NAME\.py"):
        load_spec(tmp_path / "notes.txt")


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "walk.py")
    with pytest.raises(SpecError, match=r"walk\.py is no plain file"):
        load_spec(tmp_path / "walk.py")
    (tmp_path / "walk.py").unlink()
    path = written(tmp_path, None)
    os.mkfifo(spec_path(path))
    with pytest.raises(SpecError, match=r"walk\.spec\.json is no plain file"):
        load_spec(path)


def test_line_ends_are_read_as_they_are_written(tmp_path):
    path = written(tmp_path, {"name": "walk", "skill": "optimization"})
    path.write_bytes(b"x = 1\r\n")
    assert load_spec(path).source == "x = 1\r\n"


def test_a_spec_of_other_source_names_the_file(tmp_path):
    path = written(tmp_path, {"name": "walk", "skill": "optimization", "id": "0" * 64})
    with pytest.raises(SpecError, match=r"walk\.spec\.json: the spec is of source 000000000000"):
        load_spec(path)


@pytest.mark.parametrize(
    "fields", [{"name": "walk"}, {"name": "walk", "skill": "cooking"}, {"name": "w", "skill": "optimization", "x": 1}]
)
def test_a_wrong_spec_names_the_file(tmp_path, fields):
    with pytest.raises(SpecError, match=r"walk\.spec\.json: the spec"):
        load_spec(written(tmp_path, fields))


def test_broken_json_and_broken_text_are_errors(tmp_path):
    path = written(tmp_path, {"name": "walk", "skill": "optimization"})
    spec_path(path).write_text("{")
    with pytest.raises(SpecError, match=r"walk\.spec\.json: the spec cannot be read"):
        load_spec(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="is not UTF-8 text"):
        load_spec(path)


def test_a_file_beyond_all_bounds_is_an_error(tmp_path):
    path = written(tmp_path, {"name": "walk", "skill": "optimization"}, source="#" * 300_000)
    with pytest.raises(SpecError, match="is 300000 bytes; at most 262144"):
        load_spec(path)
