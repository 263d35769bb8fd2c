"""The program's boundary: exit codes, one message for an error, and a traceback for a fault of its own."""

from __future__ import annotations

import json
import sys

import pytest

from spade_agents.cli import main
from spade_agents.cli.failures import FAILED, OK, UNDECIDED, USAGE, described, worst
from spade_agents.errors import CheckpointError, ConfigurationError, InfrastructureError, PolicyError
from spade_environments import EnvironmentFault, FaultKind, HostFault, SpecError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), USAGE),
        (CheckpointError("x"), USAGE),
        (SpecError("x"), USAGE),
        (PolicyError("x"), FAILED),
        (EnvironmentFault(FaultKind.CRASH, "load"), FAILED),
        (InfrastructureError("x"), UNDECIDED),
        (HostFault(FaultKind.HOST_FAULT, "load"), UNDECIDED),
        (OSError(28, "No space left on device"), UNDECIDED),
    ],
)
def test_every_error_of_ours_has_its_exit_code(error: Exception, code: int):
    failure = described(error)
    assert failure is not None
    assert failure.exit_code == code
    assert failure.message


def test_a_path_that_cannot_be_used_is_the_users_and_a_missing_file_of_ours_is_not():
    failure = described(PermissionError(13, "Permission denied", "/secret"))
    assert failure == ("/secret: Permission denied; give a path that can be used", USAGE)
    assert described(FileNotFoundError(2, "No such file or directory", "ours.json")) is None
    assert described(PermissionError(13, "Permission denied")) is None


def test_a_fault_of_the_program_is_not_hidden_behind_a_message():
    assert described(KeyError("x")) is None


def test_ctrl_c_before_a_command_has_begun_ends_as_shells_have_it(monkeypatch: pytest.MonkeyPatch):
    def stopped(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[main.__module__], "app", stopped)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 130


def test_a_library_of_an_extra_that_is_missing_is_told_with_how_to_install_it():
    failure = described(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert failure == ("torch is not installed; this needs: pip install 'spade-agents[train]'", USAGE)
    assert described(ModuleNotFoundError("No module named 'spade_agents.nowhere'", name="spade_agents.nowhere")) is None


def test_a_failed_check_outweighs_an_undecided_one():
    assert worst([]) == OK
    assert worst([0, 0]) == OK
    assert worst([0, 3]) == UNDECIDED
    assert worst([3, 1, 0]) == FAILED


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]):
    from importlib.metadata import version

    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == version("spade-agents")


def test_an_unknown_command_ends_with_two(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["frobnicate"])
    assert ended.value.code == 2
    assert "No such command" in capsys.readouterr().err


@pytest.mark.parametrize("group", [(), ("nano",), ("model",), ("env",), ("agent",), ("corpus",)])
def test_no_commands_summary_is_cut_off_in_the_list_of_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, group: tuple[str, ...]
):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*group, "--help"])
    commands = capsys.readouterr().out.partition("Commands:")[2]
    assert commands and "..." not in commands


@pytest.mark.parametrize("command", [(), ("train",), ("env", "certify"), ("nano", "build")])
def test_a_single_letter_asks_for_help_too(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]):
    with pytest.raises(SystemExit) as ended:
        main([*command, "-h"])
    assert (ended.value.code or 0, capsys.readouterr().out.split()[:2]) == (0, ["Usage:", "spade"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["env", "show", "nowhere", "--json"], "nowhere"), (["doctor", "--jsn", "--json"], "No such option: --jsn")],
)
def test_an_error_under_json_is_json_too(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    error = json.loads(printed.out)
    assert ended.value.code == error["exit_code"] == USAGE
    assert told in error["error"]
    assert told in printed.err
