"""`spade doctor`: honest about the sandbox."""

from __future__ import annotations

import json
import sys

import pytest

from spade_agents.cli import main
from spade_agents.cli.doctor import _exit_code, _sandbox_lines, sandbox_facts
from spade_environments.sandbox import LocalSandboxSettings
from spade_environments.sandbox.levels import LEVELS


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

    assert len(facts["sandbox"]["attempts"]) >= 20
    assert facts["sandbox"]["not_stopped"]


def test_doctor_for_a_person_is_a_line_for_each_fact_and_each_attempt(capsys: pytest.CaptureFixture[str]):
    code, out = run(capsys)
    assert code == 0
    first = [line.split()[0] for line in out.splitlines()]
    assert first[:7] == ["python", "platform", "cores", "compiler", "packages", "sandbox", "attempts"]
    assert any(line.endswith("open a file of the host: refused (PermissionError)") for line in out.splitlines())
    assert "does not stop an environment that wants to" in out


@pytest.mark.parametrize(("layers", "level", "code"), [(("seccomp",), "B", 0), (("landlock",), "C", 1), ((), "D", 1)])
async def test_a_layer_that_is_switched_off_lowers_the_level_and_is_told_in_words(layers, level, code):
    facts = await sandbox_facts(LocalSandboxSettings(layers=layers))
    lines = "\n".join(_sandbox_lines(facts))
    assert facts["level"] == level
    assert _exit_code(facts) == code
    assert ("NOT stopped" in lines) is (level in "CD")
    assert ("sandbox.allow_degraded" in lines) is (level in "CD")
    assert set(LEVELS["A"].not_stopped[:2]) < set(facts["not_stopped"])
    assert len(facts["not_stopped"]) > len(LEVELS["A"].not_stopped)


async def test_a_sandbox_that_does_not_come_up_is_told_and_not_decidable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    facts = await sandbox_facts(system="linux", machine="aarch64")
    assert _exit_code(facts) == 3
    assert _sandbox_lines(facts)[0].startswith("sandbox    none: host_fault in load")
    assert "never tried on such a machine" in _sandbox_lines(facts)[1]


async def test_on_macos_the_level_is_d_with_a_warning_and_no_crash():
    facts = await sandbox_facts(system="darwin", machine="arm64")
    lines = _sandbox_lines(facts)
    assert (facts["level"], _exit_code(facts)) == ("D", 1)
    assert lines[1].startswith("  warning: macOS has neither seccomp nor Landlock")
    assert "  NOT stopped  open a file of the host: done" in lines
    assert any(line.startswith("  stopped      spin: ended (") for line in lines)


async def test_on_windows_no_sandbox_opens_and_doctor_says_so():
    facts = await sandbox_facts(system="win32", machine="AMD64")
    assert _exit_code(facts) == 3
    assert "does not run on Windows" in _sandbox_lines(facts)[0]
