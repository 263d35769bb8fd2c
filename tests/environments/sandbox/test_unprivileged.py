"""The same walls for a user who is not root: a copy of the package outside of root's home, and the system's Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spade_environments.inside import jail_entry

PYTHON = sys.executable
ATTEMPTS = Path(__file__).with_name("jail_attempts.py")
pytestmark = pytest.mark.skipif(bool(jail_entry.missing()), reason=f"this kernel lacks {jail_entry.missing()}")
SYSTEM_PYTHON = "/usr/bin/python3"
UNPRIVILEGED = """
import asyncio, json, os, sys
from spade_environments.sandbox import python_folders, run_code, run_jailed, open_code_runner

async def main(attempts, outside, listed, folder):
    python = sys.executable
    command = [python, "-I", attempts, str(os.getpid()), outside, listed, folder]
    readable = [*python_folders(python), attempts, os.path.dirname(listed)]
    jailed = await run_jailed(command, readable=readable, timeout=20.0)
    spin = await run_jailed([python, "-I", "-c", "import os; os.fork()\\nwhile True: pass"], timeout=0.3)
    deadly = await run_jailed([python, "-I", "-c", "import os; os.kill(-1, 9)"])
    async with open_code_runner() as runner:
        ran = await runner.run_code("print(input())", stdin="x")
        opened = await runner.run_code(f"open({outside!r})")
    told = [jailed.stdout or jailed.stderr, spin.outcome, deadly.outcome, runner.level, ran.stdout, opened.error]
    print(json.dumps([os.getuid(), *told]))

asyncio.run(main(*sys.argv[1:]))
"""


def same_python():
    asked = [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info[:2])"]
    found = Path(SYSTEM_PYTHON).exists() and subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return found == f"{sys.version_info[:2]}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not same_python(), reason=f"{SYSTEM_PYTHON} is not of this version")
def test_an_unprivileged_user_has_the_same_walls(victims, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    listing = "import spade_environments.sandbox.sync, sys; print(*{n.partition('.')[0] for n in sys.modules})"
    names = subprocess.run([PYTHON, "-c", listing], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        origin = getattr(sys.modules.get(name) or __import__(name), "__file__", None) or ""
        if "site-packages" in origin or name == "spade_environments":
            path = Path(origin)
            source, target = (path.parent, tree / name) if path.stem == "__init__" else (path, tree / path.name)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, tree)
    attempts = Path(shutil.copy(ATTEMPTS, tree / "attempts.py"))
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    for path in (*victims, victims[1].parent):
        os.chown(path, 1000, 1000)
    command = [SYSTEM_PYTHON, "-c", UNPRIVILEGED, attempts, *victims]
    environment = {"PYTHONPATH": str(tree), "HOME": "/nowhere"}
    ran = subprocess.run(
        command,
        env=environment,
        user=1000,
        group=1000,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    user, jailed_told, spin, deadly, level, stdout, error = json.loads(ran.stdout)
    assert (user, spin, deadly, level, stdout) == (1000, "timeout_cpu", "ok", "A", "x\n")
    assert "PermissionError" in error
    told = json.loads(jailed_told)
    assert {name for name, outcome in told["attempts"].items() if not outcome.startswith("refused")} == set()
    assert told["facts"]["user"] == 1000
    assert [path.stat().st_mode & 0o777 for path in victims] == [0o666, 0o666, 0o777]
