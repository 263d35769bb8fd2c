"""`spade doctor`: honest about the sandbox."""

from __future__ import annotations

import json

import pytest

from spade_agents.cli import main
from spade_environments.sandbox import open_sandbox


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_doctor_tells_the_level_that_the_sandbox_has_here(capsys: pytest.CaptureFixture[str]):
    code, out = run(capsys, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["sandbox"]["works"] is True
    assert facts["sandbox"]["level"] in ("A", "B", "C", "D")
    assert facts["sandbox"]["means"]
    assert facts["packages"]["msgspec"]


async def test_the_level_told_is_the_one_that_the_sandbox_reports():
    from spade_agents.cli.doctor import sandbox_facts

    async with open_sandbox() as sandbox:
        assert (await sandbox_facts())["level"] == sandbox.level


def test_doctor_for_a_person_is_a_line_for_each_fact(capsys: pytest.CaptureFixture[str]):
    code, out = run(capsys)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        "python",
        "platform",
        "cores",
        "compiler",
        "packages",
        "sandbox",
    ]
