"""`spade env`: what it prints, its exit codes, and that bad input leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_agents.cli import main

HANGS = """from spade_environments import TextEnv


class Hangs(TextEnv):
    def reset(self, seed):
        return "", {}

    def step(self, action):
        return "", 0.0, False, False, {}

    def solution(self):
        return ["x"]


while True:
    pass
"""
PLAIN = '{"name": "NAME", "skill": "logical deduction"}'


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `spade`."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def write(folder: Path, name: str, source: str) -> Path:
    (folder / f"{name}.spec.json").write_text(PLAIN.replace("NAME", name))
    (folder / f"{name}.py").write_text(source)
    return folder / f"{name}.py"


def test_list_names_every_environment_of_the_catalogue(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "env", "list")
    assert code == 0
    assert len(out.splitlines()) >= 12
    assert "ticket_desk" in out


def test_list_as_json_is_read_by_a_program(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "env", "list", "--json")
    specs = json.loads(out)
    assert code == 0
    assert {"name", "id", "skill", "domain", "difficulty"} <= set(specs[0])


def test_show_prints_tools_first_observation_and_hint(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "env", "show", "ticket_desk", "--seed", "3")
    assert code == 0
    assert "close_ticket(ticket)" in out
    assert "first observation, seed 3:" in out
    assert "source:" not in out


def test_the_example_in_the_help_of_show_works(capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(capsys, "env", "show", "--help")
    example = out.partition("Example: spade ")[2].split()
    assert run(capsys, *example)[0] == 0


def test_show_as_json_holds_the_source_when_asked_for(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "env", "show", "ticket_desk", "--json", "--source")
    shown = json.loads(out)
    assert code == 0
    assert "class TicketDesk" in shown["source"]
    assert shown["base"] == "tool"


def test_an_unknown_name_is_a_usage_error_that_suggests_one(capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "env", "show", "ticket_dsk")
    assert (code, out) == (2, "")
    assert "did you mean ticket_desk?" in err
    assert "Traceback" not in err


def test_a_certified_environment_ends_with_zero(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "env", "certify", "word_machine")
    assert code == 0
    assert out.startswith("certified  word_machine")


def test_certify_as_json_prints_one_certificate_a_line(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "env", "certify", "word_machine", "bell_towers", "--json")
    certificates = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [c["name"] for c in certificates] == ["word_machine", "bell_towers"]
    assert {c["verdict"] for c in certificates} == {"certified"}


def test_a_file_that_hangs_on_import_is_rejected_with_one(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = write(tmp_path, "hangs", HANGS)
    code, out, err = run(capsys, "env", "certify", str(path))
    assert code == 1
    assert "failed     load" in out
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hangs.certificate.json", "hangs.py", "hangs.spec.json"]


def test_showing_a_file_that_hangs_on_import_tells_its_fault(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, out, err = run(capsys, "env", "show", str(write(tmp_path, "hangs", HANGS)))
    assert (code, out) == (1, "")
    assert "timeout_cpu in load" in err
    assert "Traceback" not in err


def test_a_folder_ends_with_the_worst_of_its_files(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    from spade_environments.registry import find

    write(tmp_path, "good", find("word_machine").source)
    write(tmp_path, "broken", "x = (\n")
    code, out, _ = run(capsys, "env", "certify", str(tmp_path))
    assert code == 1
    assert out.index("rejected") < out.index("certified")


def test_the_certificate_is_written_beside_the_file_and_void_once_the_source_changes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    from spade_environments.certificate import read_certificate
    from spade_environments.registry import find

    path = write(tmp_path, "good", find("word_machine").source)
    assert json.loads(run(capsys, "env", "show", str(path), "--json")[1])["certificate"] == "none"
    code, _, _ = run(capsys, "env", "certify", str(path), "--seeds", "3")
    certificate = read_certificate(path)
    assert code == 0
    assert certificate is not None
    assert certificate.admitted
    assert (len(certificate.seeds), certificate.settings.seeds) == (3, 3)
    assert certificate.limits is not None
    assert certificate.seconds > sum(gate.seconds for gate in certificate.gates) * 0.99
    assert "certificate: certified" in run(capsys, "env", "show", str(path))[1]
    path.write_text(path.read_text() + "# another line\n")
    assert "certificate: void: the source has changed" in run(capsys, "env", "show", str(path))[1]


def test_a_certificate_that_cannot_be_written_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    write(tmp_path, "also_broken", "x = (\n")
    write(tmp_path, "broken", "x = (\n")
    (tmp_path / "broken.certificate.json").mkdir()
    code, _, err = run(capsys, "env", "certify", str(tmp_path))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_nothing_is_written_with_no_save(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = write(tmp_path, "broken", "x = (\n")
    assert run(capsys, "env", "certify", str(path), "--no-save")[0] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.py", "broken.spec.json"]


@pytest.mark.parametrize("flag", [["--seeds", "1"], ["--seeds", "x"], ["--jobs", "0"]])
def test_a_number_that_cannot_be_is_a_usage_error(capsys: pytest.CaptureFixture[str], flag: list[str]):
    code, out, err = run(capsys, "env", "certify", "word_machine", *flag)
    assert (code, out) == (2, "")
    assert flag[0] in err


def test_a_certificate_that_cannot_be_read_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    from spade_environments.registry import find

    path = write(tmp_path, "good", find("word_machine").source)
    (tmp_path / "good.certificate.json").write_text("{")
    code, _, err = run(capsys, "env", "show", str(path))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "certify the environment again" in err


def test_an_empty_folder_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, err = run(capsys, "env", "certify", str(tmp_path))
    assert code == 2
    assert "holds no environment" in err


def test_a_file_without_its_spec_is_a_usage_error_that_says_what_to_write(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "alone.py").write_text("x = 1\n")
    code, _, err = run(capsys, "env", "certify", str(tmp_path / "alone.py"))
    assert code == 2
    assert "alone.spec.json" in err


def test_a_file_with_carriage_returns_in_a_pool_is_the_environment_that_its_spec_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    from spade_environments.registry import find

    spec = find("word_machine")
    spec = spec.with_source(spec.source.replace("\n", "\r\n"))
    (tmp_path / "environment.py").write_bytes(spec.source.encode())
    (tmp_path / "spec.json").write_text(spec.to_json(source=False))
    code, out, _ = run(capsys, "env", "show", str(tmp_path))
    assert (code, "text environment, fully observed" in out) == (0, True)


@pytest.mark.parametrize("target", ["x" * 5000, "x" * 5000 + ".py", ""])
def test_a_name_that_can_be_no_path_is_a_usage_error(capsys: pytest.CaptureFixture[str], target: str):
    code, out, err = run(capsys, "env", "show", target)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert len(err) < 500


@pytest.mark.parametrize("base", ["text", "tool"])
def test_a_scaffold_loads_and_the_certificate_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, base: str
):
    code, out, _ = run(capsys, "env", "new", "my_room", "--base", base, "--out", str(tmp_path))
    assert code == 0
    assert "FILL IN" in out
    assert (tmp_path / "my_room.py").read_text().count("FILL IN") == 3
    code, out, _ = run(capsys, "env", "show", str(tmp_path / "my_room.py"))
    assert code == 0
    code, out, _ = run(capsys, "env", "certify", str(tmp_path / "my_room.py"))
    assert code == 1
    assert "passed     load" in out
    assert "to do:" in out


@pytest.mark.parametrize("name", ["My-Env", "class", "../up", "", "a__b", "9lives"])
def test_a_scaffold_needs_a_plain_name(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str):
    code, _, err = run(capsys, "env", "new", name, "--base", "text", "--out", str(tmp_path))
    assert code == 2
    assert "snake_case" in err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_named_without_its_ending_is_pointed_at(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "env", "new", "mine", "--base", "text")[0] == 0
    code, _, err = run(capsys, "env", "certify", "mine")
    assert code == 2
    assert "there is the file mine.py: give that" in err


def test_a_scaffold_never_replaces_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "mine.spec.json").write_text("{}")
    code, _, err = run(capsys, "env", "new", "mine", "--base", "text", "--out", str(tmp_path))
    assert code == 2
    assert "exists and is left as it is" in err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.spec.json"]
    assert (tmp_path / "mine.spec.json").read_text() == "{}"


def test_a_scaffold_that_cannot_be_written_whole_leaves_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, err = run(capsys, "env", "new", "a" * 250, "--base", "text", "--out", str(tmp_path))
    assert (code, len(err.splitlines())) == (2, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_scaffold_makes_its_folder_but_not_where_a_file_is(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, _ = run(capsys, "env", "new", "mine", "--base", "text", "--out", str(tmp_path / "new" / "one"))
    assert code == 0
    assert (tmp_path / "new" / "one" / "mine.py").exists()
    (tmp_path / "file").write_text("kept")
    code, _, err = run(capsys, "env", "new", "mine", "--base", "text", "--out", str(tmp_path / "file"))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "file is no folder; give another with --out" in err


def test_an_unknown_base_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, err = run(capsys, "env", "new", "mine", "--base", "graph", "--out", str(tmp_path))
    assert code == 2
    assert "graph" in err
