"""What lies in a scratch folder is weighed without following a link, however deep it lies."""

import os
from pathlib import Path

from spade_environments.inside.scratch import Usage, remove, usage


def test_files_folders_and_links_are_counted_and_no_link_is_followed(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "scratch"
    outside.mkdir()
    (outside / "large").write_bytes(b"x" * (1 << 20))
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "file").write_bytes(b"x" * 10_000)
    (folder / "link").symlink_to(outside)
    found = usage(folder)
    assert found.files == 4
    assert 10_000 <= found.size < 1 << 20


def test_a_sparse_file_weighs_what_it_takes(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert usage(tmp_path).size < 1 << 20


def test_counting_ends_where_the_limit_is_passed(tmp_path):
    for number in range(50):
        (tmp_path / str(number)).touch()
    assert usage(tmp_path, Usage(1 << 30, 10)).files == 11


def test_what_lies_deeper_than_a_path_may_be_long_is_counted(tmp_path, monkeypatch):
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for _ in range(1200):
        Path("deep").mkdir()
        os.chdir("deep")
    os.chdir(tmp_path)
    assert usage(folder).files == 1200
    remove(folder)


def test_a_folder_that_is_closed_is_passed_over(tmp_path):
    (tmp_path / "closed").mkdir(mode=0)
    assert usage(tmp_path).files == 1
