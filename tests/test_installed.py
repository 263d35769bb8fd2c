"""The wheel outside the clone: installed beside nothing of the source tree, it runs the whole loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel; the libraries it needs are lent from the environment of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # A path file is not followed into another: the editable install of the lending environment stays out of sight.
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def run(python: Path, *arguments: str, cwd: Path) -> str:
    """Standard output of a command of the installed wheel, which must succeed."""
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([python, *arguments], cwd=cwd, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_installed_package_is_not_the_one_in_the_clone(installed: Path, tmp_path: Path):
    where = run(installed, "-c", "import spade_agents; print(spade_agents.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parents[1])


def test_the_installed_package_lists_and_certifies_environments(installed: Path, tmp_path: Path):
    spade = str(installed.with_name("spade"))
    assert "ticket_desk" in run(installed, spade, "env", "list", cwd=tmp_path)
    assert "certified" in run(installed, spade, "env", "certify", "word_machine", cwd=tmp_path)


def test_the_installed_package_runs_the_quick_demo_to_its_report(installed: Path, tmp_path: Path):
    told = json.loads(run(installed, str(installed.with_name("spade")), "demo", "--quick", "--json", cwd=tmp_path))
    assert told["finished"] is True
    report = tmp_path / told["report"]
    page = report.read_text(encoding="utf-8")
    assert "Held-out solve rate" in page
    assert "<h1>quick demo</h1>" in page
    assert {"known families", "never-seen families"} <= set(told["evaluations"][-1]["parts"])
