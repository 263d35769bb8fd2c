"""`spade env import`: what it writes, what it refuses, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_agents.cli import main
from spade_environments.certificate import read_certificate
from spade_environments.loader import load_spec
from tests.environments.importing import samples


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `spade env import`."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["env", "import", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "market.py").write_text(samples.MARKET_SUM)
    (folder / "mine.py").write_text(samples.MINE_WALK)
    (folder / "other.py").write_text("raise SystemExit('ran')\n")
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_a_file_becomes_a_source_a_spec_and_a_certificate(capsys: pytest.CaptureFixture[str], foreign: Path, out: Path):
    options = ("--out", str(out), "--skill", "Mathematical Reasoning", "--json")
    code, text, _ = run(capsys, str(foreign / "market.py"), *options)
    told = json.loads(text)
    assert (code, told["verdict"], told["shape"]) == (0, "certified", "game")
    assert names(out) == ["market_sum.certificate.json", "market_sum.py", "market_sum.spec.json"]
    spec = load_spec(out / "market_sum.py")
    certificate = read_certificate(out / "market_sum.py")
    assert (spec.id, spec.skill.value, spec.provenance["kind"]) == (told["id"], "mathematical reasoning", "imported")
    assert certificate is not None
    assert certificate.holds_for(spec)
    assert json.loads(run(capsys, str(foreign / "market.py"), *options)[1])["id"] == spec.id


def test_a_folder_is_imported_with_what_is_unproven_kept_apart_by_its_verdict(
    capsys: pytest.CaptureFixture[str], foreign: Path, out: Path
):
    code, text, _ = run(capsys, str(foreign), "--out", str(out))
    assert code == 1
    assert "unproven" in text
    assert "never trained on" in text
    assert "mine_walk.py" in names(out)
    certificate = read_certificate(out / "mine_walk.py")
    assert certificate is not None
    assert not certificate.admitted


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import socket\n" + samples.MINE_WALK, "import of 'socket'"),
        ("from .helpers import x\n" + samples.MINE_WALK, "gate lint"),
        ("from somewhere import GameBase\n" + samples.MINE_WALK, "'somewhere'"),
        (samples.MINE_WALK + "\nraise ValueError('late')\n", "gate load"),
        (samples.MINE_WALK.replace("self.at, self.row = 0,", "self.at, self.row = 1 // 0,"), "gate reset"),
        (samples.LIFT_GYM.replace("Discrete(3)", "Box(0, 1)"), "Box, which text cannot write"),
        ("x = (\n", "does not parse"),
    ],
)
def test_what_cannot_be_played_is_not_written_and_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path, source: str, words: str
):
    (tmp_path / "it.py").write_text(source)
    code, text, _ = run(capsys, str(tmp_path / "it.py"), "--out", str(out))
    assert (code, names(out)) == (1, [])
    assert text.startswith("not imported")
    assert words in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing.py"],
        ["no_such_module_x:A"],
        [""],
        ["{foreign}/market.py:OtherEnv"],
        ["{foreign}/other.py"],
        ["{foreign}/market.py", "--skill", "juggling"],
        ["{foreign}/market.py", "--max-turns", "99"],
        ["{foreign}/market.py", "--out", "{foreign}/market.py"],
        [],
    ],
)
def test_bad_input_is_a_usage_error_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], foreign: Path, out: Path, arguments: list[str]
):
    placed = [argument.replace("{foreign}", str(foreign)) for argument in arguments]
    code, text, err = run(capsys, *placed, *(() if "--out" in placed else ("--out", str(out))))
    assert (code, text, names(out)) == (2, "", [])
    assert "Traceback" not in err


def test_the_folder_to_write_to_is_made(capsys: pytest.CaptureFixture[str], foreign: Path, tmp_path: Path):
    code, _, _ = run(capsys, str(foreign / "market.py"), "--out", str(tmp_path / "new" / "one"))
    assert code == 0
    assert "market_sum.py" in names(tmp_path / "new" / "one")


def test_a_file_in_the_way_is_left_as_it_is(capsys: pytest.CaptureFixture[str], foreign: Path, out: Path):
    (out / "market_sum.py").write_text("mine\n")
    code, text, _ = run(capsys, str(foreign / "market.py"), "--out", str(out))
    assert (code, names(out)) == (1, ["market_sum.py"])
    assert "left as it is" in text
    assert (out / "market_sum.py").read_text() == "mine\n"


def test_its_help_has_an_example(capsys: pytest.CaptureFixture[str]):
    code, text, _ = run(capsys, "--help")
    assert code == 0
    assert "Example: spade env import" in text
