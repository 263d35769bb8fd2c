from __future__ import annotations

import shutil

import pytest

from spade_agents.errors import CheckpointError, InfrastructureError
from spade_agents.selfplay.checkpoint import Checkpoint, newest_stable, prune, save_checkpoint
from tests.agents.selfplay.killing import Killer, in_child


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


def saved_and_pruned(folder, killer):
    """One more checkpoint, several files deep, and the oldest removed; how many operations that took."""

    def write(draft):
        for name in ("model/model.bin", "model/config.json", "engine/engine.pt", "state.json"):
            (draft.path / name).parent.mkdir(exist_ok=True)
            (draft.path / name).write_text(f"{name} of 3")

    def both():
        save_checkpoint(folder, 3, write)
        prune(folder, keep=2)

    killer.while_in(both)()
    return killer.count


def test_a_kill_between_any_two_writes_leaves_no_marker_without_its_files_and_never_no_checkpoint(tmp_path):
    def prepared(name):
        folder = tmp_path / name
        for number in (1, 2):
            saved(folder, number, text=f"weights of {number}")
        return folder

    whole = prepared("whole")
    operations = in_child(lambda: saved_and_pruned(whole, Killer()))
    assert operations is not None
    assert operations > 20
    found = set()
    for at in range(operations):
        folder = prepared(f"killed-{at}")
        assert in_child(lambda folder=folder, at=at: saved_and_pruned(folder, Killer(at))) is None
        for marker in folder.glob("*/STABLE"):
            Checkpoint(path=marker.parent).verify()
        newest = newest_stable(folder)
        assert newest.number in (2, 3)
        found.add(newest.number)
        in_child(lambda folder=folder: min(saved_and_pruned(folder, Killer()), 250))
        assert sorted(path.name for path in folder.iterdir()) == ["step-2", "step-3"]
        assert newest_stable(folder).number == 3
    assert found == {2, 3}
