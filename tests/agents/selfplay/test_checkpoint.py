from __future__ import annotations

import shutil

import pytest

from spade_agents.errors import CheckpointError, InfrastructureError
from spade_agents.selfplay.checkpoint import newest_stable, prune, save_checkpoint


def saved(folder, number, text="weights"):
    def write(draft):
        draft.model.mkdir()
        (draft.model / "model.bin").write_text(text)
        draft.state.write_text("{}")

    return save_checkpoint(folder, number, write)


def test_the_newest_finished_checkpoint_is_found_and_verified(tmp_path):
    for number in (2, 9, 10):
        saved(tmp_path, number)
    (tmp_path / "step-11").mkdir()
    assert newest_stable(tmp_path).path.name == "step-10"


def test_no_finished_checkpoint_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "step-1").mkdir()
    with pytest.raises(CheckpointError, match=r"no finished checkpoint.*start it again") as caught:
        newest_stable(tmp_path)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("damage", ["changed", "missing", "marker"])
def test_a_corrupt_checkpoint_is_an_error_that_names_the_folder_to_remove(tmp_path, damage):
    saved(tmp_path, 1)
    path = saved(tmp_path, 2).path
    if damage == "changed":
        (path / "model" / "model.bin").write_text("weightz")
    elif damage == "missing":
        (path / "state.json").unlink()
    else:
        (path / "STABLE").write_text("{")
    with pytest.raises(CheckpointError, match=r"step-2 is corrupt.*remove that folder"):
        newest_stable(tmp_path)


def test_a_failed_write_leaves_the_earlier_checkpoint_and_no_folder_of_its_name(tmp_path):
    saved(tmp_path, 1)

    def fail(draft):
        draft.state.write_text("{")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(tmp_path, 2, fail)
    assert newest_stable(tmp_path).path.name == "step-1"
    assert not (tmp_path / "step-2").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("unexpected pos 47488")])
def test_a_full_disk_is_told_as_such_whatever_error_the_writer_has_for_it(tmp_path, monkeypatch, error):
    usage = shutil.disk_usage(tmp_path)

    def fail(draft):
        draft.state.write_text("{")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
        raise error

    (tmp_path / "run").mkdir()
    with pytest.raises(
        InfrastructureError, match=r"step-2 cannot be written: there is no room left.*--resume"
    ) as caught:
        save_checkpoint(tmp_path / "run", 2, fail)
    assert caught.value.exit_code == 3
    assert list((tmp_path / "run").iterdir()) == []


def test_pruning_keeps_the_newest_and_clears_what_a_kill_left(tmp_path):
    for number in range(4):
        saved(tmp_path, number)
    (tmp_path / ".step-4.draft").mkdir()
    (tmp_path / "step-9").mkdir()
    prune(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-2", "step-3"]


def test_a_finished_checkpoint_is_never_written_over_so_that_there_is_no_moment_without_it(tmp_path):
    first = saved(tmp_path, 0)
    assert saved(tmp_path, 0, text="other weights") == first
    assert (first.model / "model.bin").read_text() == "weights"
    first.verify()
