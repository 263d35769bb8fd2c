"""The jail's filter, run here by a small interpreter of classic BPF, for both architectures."""

import errno
import platform
import socket

import pytest

from spade_environments.inside import jail_filter
from tests.environments.sandbox.test_seccomp import ALLOW, KILL, MACHINES, refused, run

LOCAL, INTERNET = socket.AF_UNIX, socket.AF_INET


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    """The column of this machine, and a maker of verdicts."""
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    architecture, column = MACHINES[request.param]

    def filtered(*, own_user=False, scoped=True):
        built = jail_filter.build(own_user=own_user, scoped=scoped)
        program = [(line.code, line.yes, line.no, line.value) for line in built.instructions]

        def verdict(number, *arguments, architecture=architecture):
            return run(program, number, architecture, [*arguments, 0, 0, 0, 0, 0, 0])

        return verdict

    return column, filtered


def test_what_no_table_names_passes_and_what_nobody_knows_yet_is_missing(machine):
    column, filtered = machine
    verdict = filtered()
    assert [verdict(number) for number in ((0, 63)[column], (59, 221)[column], (61, 260)[column])] == [ALLOW] * 3
    assert {verdict(number) for number in range(463, 900)} == {refused(errno.ENOSYS)}


def test_a_program_for_another_architecture_is_killed(machine):
    _, filtered = machine
    assert filtered()(0, architecture=0x40000003) == KILL


def test_no_socket_of_any_kind_is_made_but_a_connected_local_pair(machine):
    column, filtered = machine
    verdict, single, pair = filtered(), (41, 198)[column], (53, 199)[column]
    assert {verdict(single, family) for family in range(50)} == {refused(errno.EACCES)}
    modes = [0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK]
    connected = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]
    assert {verdict(pair, LOCAL, kind | mode) for kind in connected for mode in modes} == {ALLOW}
    assert {verdict(pair, LOCAL, socket.SOCK_DGRAM | mode) for mode in modes} == {refused(errno.EPERM)}
    assert {verdict(pair, INTERNET, kind) for kind in connected} == {refused(errno.EPERM)}


def test_a_connected_pair_gets_no_name_and_no_folder_is_watched(machine):
    column, filtered = machine
    named = [filtered()(pair[column]) for pair in ((49, 200), (42, 203), (50, 201), (43, 202), (288, 242))]
    assert set(named) == {refused(errno.EACCES)}
    assert {filtered()(pair[column]) for pair in ((294, 26), (254, 27))} == {refused(errno.ENOSYS)}


def test_a_process_is_cloned_into_no_namespace(machine):
    column, filtered = machine
    verdict, clone = filtered(), (56, 220)[column]
    assert verdict(clone, 17) == verdict(clone, 0x3D0F00) == ALLOW
    flags = [0x20000, *(1 << bit for bit in range(25, 31))]
    assert {verdict(clone, flag | 17) for flag in flags} == {refused(errno.EPERM)}


def test_only_the_caller_itself_is_limited_and_placed(machine):
    column, filtered = machine
    for numbers in ((302, 261), (203, 122)):
        assert [filtered()(numbers[column], process) for process in (0, 1, 999)] == [ALLOW, *[refused(errno.EPERM)] * 2]


@pytest.mark.parametrize("name", ["fchmod", "fchownat", "utimensat", "fsetxattr"])
def test_the_callers_own_user_cannot_change_what_is_told_of_a_file(name, machine):
    column, filtered = machine
    number = jail_filter._METADATA[name][column]
    assert (filtered(own_user=True)(number), filtered(own_user=False)(number)) == (refused(errno.EPERM), ALLOW)


@pytest.mark.parametrize("name", ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"])
def test_no_signal_is_sent_where_landlock_does_not_keep_it_inside(name, machine):
    column, filtered = machine
    number = jail_filter._SIGNALS[name][column]
    assert (filtered(scoped=False)(number), filtered(scoped=True)(number)) == (refused(errno.EPERM), ALLOW)


def test_no_number_is_named_twice(machine):
    column, _ = machine
    tables = [*jail_filter._REFUSED.values(), jail_filter._METADATA, jail_filter._SIGNALS]
    found = [pair[column] for table in tables for pair in table.values() if pair[column] is not None]
    special = [
        jail_filter._CLONE,
        jail_filter._SOCKETPAIR,
        jail_filter._FCNTL,
        jail_filter._PRLIMIT,
        jail_filter._AFFINITY,
    ]
    found += [pair[column] for pair in special]
    assert len(found) == len(set(found))
