import pytest

from spade_environments.inside import landlock, seccomp
from spade_environments.sandbox import LocalSandboxSettings
from spade_environments.sandbox.probe import probe

both_layers = pytest.mark.skipif(
    not seccomp.available() or not landlock.version(), reason="this kernel has not both layers"
)


@both_layers
async def test_at_level_a_nothing_of_the_probe_succeeds():
    report = await probe()
    assert report.level == "A"
    assert len(report.attempts) >= 20
    assert report.not_held == ()
    outcomes = {attempt.name: attempt.outcome for attempt in report.attempts}
    assert outcomes["open a file of the host"] == "refused (PermissionError)"
    assert outcomes["trace the parent"] == "ended (syscall)"
    assert outcomes["spin"] == "ended (timeout_cpu)"
    assert outcomes["forge a frame"] == "ended (protocol)"


async def test_at_level_d_the_probe_names_what_is_not_stopped():
    report = await probe(LocalSandboxSettings(layers=()))
    assert report.level == "D"
    assert {"open a file of the host", "make a socket", "start a program", "map executable memory"} <= set(
        report.not_held
    )
    assert not {"fork", "spin", "forge a frame", "become root"} & set(report.not_held)


@both_layers
async def test_landlock_alone_leaves_less_undone_than_nothing():
    without = await probe(LocalSandboxSettings(layers=()))
    with_files = await probe(LocalSandboxSettings(layers=("landlock",)))
    assert set(with_files.not_held) < set(without.not_held)
    assert "open a file of the host" not in with_files.not_held
