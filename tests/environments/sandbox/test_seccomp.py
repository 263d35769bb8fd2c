"""The filter's program, run here by a small interpreter of classic BPF, for both architectures."""

import errno
import platform

import pytest

from spade_environments.inside import seccomp

KILL, ALLOW = 0x80000000, 0x7FFF0000
X86, ARM = 0xC000003E, 0xC00000B7
MACHINES = {"x86_64": (X86, 0), "aarch64": (ARM, 1)}


def refused(number):
    return 0x00050000 | number


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    architecture, column = MACHINES[request.param]
    program = [(line.code, line.yes, line.no, line.value) for line in seccomp.build().instructions]

    def verdict(number, *arguments, architecture=architecture):
        return run(program, number, architecture, [*arguments, 0, 0, 0, 0, 0, 0])

    return column, verdict


def run(program, number, architecture, arguments):
    """What the kernel's interpreter would return."""
    data = {0: number, 4: architecture, **{16 + 8 * place: value for place, value in enumerate(arguments)}}
    place, loaded = 0, 0
    while True:
        code, yes, no, value = program[place]
        place += 1
        if code == 0x20:
            loaded = data[value]
        elif code == 0x05:
            place += value
        elif code == 0x06:
            return value
        else:
            hit = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            place += yes if hit else no


def numbers(table, column):
    return [pair[column] for pair in table.values() if pair[column] is not None]


def test_every_named_call_gets_its_tables_verdict_and_all_else_is_refused(machine):
    column, verdict = machine
    expected = dict.fromkeys(range(600), refused(errno.EPERM))
    expected |= dict.fromkeys(numbers(seccomp._ALLOWED, column), ALLOW)
    expected |= dict.fromkeys(numbers(seccomp.DANGEROUS, column), KILL)
    for number, table in seccomp._REFUSED.items():
        expected |= dict.fromkeys(numbers(table, column), refused(number))
    for number in numbers(seccomp._SPECIAL, column):
        del expected[number]
    assert {number: verdict(number) for number in expected} == expected


def test_a_program_for_another_architecture_is_killed(machine):
    _, verdict = machine
    assert verdict(0, architecture=0x40000003) == KILL


def test_memory_is_never_executable(machine):
    column, verdict = machine
    for name in ("mmap", "mprotect"):
        number = seccomp._SPECIAL[name][column]
        assert [verdict(number, 0, 0, rights) for rights in (0, 1, 2, 3)] == [ALLOW] * 4
        assert [verdict(number, 0, 0, rights) for rights in (4, 5, 6, 7)] == [refused(errno.EPERM)] * 4


def test_memory_is_never_shared_nor_hidden_from_the_watch(machine):
    column, verdict = machine
    number = seccomp._SPECIAL["mmap"][column]
    assert [verdict(number, 0, 0, 3, flags) for flags in (0x22, 0x02)] == [ALLOW] * 2
    assert [verdict(number, 0, 0, 3, flags) for flags in (0x21, 0x01, 0x03)] == [refused(errno.EPERM)] * 3
    number = seccomp._SPECIAL["madvise"][column]
    assert [verdict(number, 0, 0, advice) for advice in (4, 8, 14)] == [ALLOW] * 3
    assert [verdict(number, 0, 0, advice) for advice in (12, 20, 21)] == [refused(errno.EPERM)] * 3


def test_a_futex_waits_and_wakes_and_ties_no_other_process(machine):
    column, verdict = machine
    number = seccomp._SPECIAL["futex"][column]
    plain, others = (0, 1, 3, 4, 5, 9, 10), (2, 6, 7, 8, 11, 12, 13)
    assert {verdict(number, 0, kind | mode) for kind in plain for mode in (0, 128, 256, 384)} == {ALLOW}
    assert {verdict(number, 0, kind | mode) for kind in others for mode in (0, 128)} == {refused(errno.ENOSYS)}


def test_a_descriptors_flags_are_read_and_never_set(machine):
    column, verdict = machine
    number = seccomp._SPECIAL["fcntl"][column]
    assert [verdict(number, 3, command) == ALLOW for command in range(6)] == [False, True, False, True, False, False]


def test_another_process_is_not_to_be_limited(machine):
    column, verdict = machine
    number = seccomp._SPECIAL["prlimit64"][column]
    assert (verdict(number, 0), verdict(number, 1)) == (refused(errno.EPERM), KILL)


def test_the_second_numbering_of_x86_64_is_killed(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    program = [(line.code, line.yes, line.no, line.value) for line in seccomp.build().instructions]
    assert run(program, 0x40000000, X86, [0] * 6) == KILL


def test_no_name_stands_in_two_tables():
    tables = [seccomp._ALLOWED, seccomp._SPECIAL, seccomp.DANGEROUS, *seccomp._REFUSED.values()]
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    for column in (0, 1):
        found = [number for table in tables for number in numbers(table, column)]
        assert len(found) == len(set(found))
