import pytest

from spade_environments.sandbox.levels import DEGRADED, LEVELS, level_named, machine_limits


@pytest.mark.parametrize(
    ("system", "machine", "best", "told"),
    [
        ("linux", "x86_64", "A", ""),
        ("linux", "aarch64", "A", "never tried on such a machine"),
        ("linux", "riscv64", "C", "no system-call filter for riscv64"),
        ("darwin", "arm64", "D", "macOS has neither seccomp nor Landlock"),
        ("darwin", "x86_64", "D", "Run nothing here that you distrust"),
        ("win32", "AMD64", "none", "does not run on Windows"),
        ("freebsd14", "amd64", "D", "on freebsd14 an environment is a process with limits on CPU time"),
    ],
)
def test_what_a_machine_can_reach_is_a_table(system, machine, best, told):
    found = machine_limits(system, machine)
    assert found.best == best
    assert told in found.warning
    assert bool(told) is bool(found.warning)


def test_every_level_says_what_holds_and_what_it_does_not_stop():
    assert list(LEVELS) == ["A", "B", "C", "D", "none"]
    assert all(level.holds and level.not_stopped for level in LEVELS.values())
    assert {"C", "D"} == DEGRADED


def test_of_a_level_that_is_not_known_nothing_is_promised():
    assert level_named("E").not_stopped == LEVELS["none"].not_stopped
