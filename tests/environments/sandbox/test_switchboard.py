"""One epoll for many channels."""

import asyncio
import socket
from pathlib import Path

import pytest

from spade_environments.sandbox import switchboard
from spade_environments.sandbox.switchboard import Switchboard


@pytest.fixture
def pairs():
    opened = [socket.socketpair() for _ in range(3)]
    yield opened
    for pair in opened:
        for end in pair:
            end.close()


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_every_channel_that_is_ready_is_read_in_one_turn(pairs):
    board, said = Switchboard(), []
    for number, (ours, theirs) in enumerate(pairs):
        board.add(ours.fileno(), lambda number=number, ours=ours: said.append((number, ours.recv(9))))
        theirs.send(b"x")
    await turns()
    assert sorted(said) == [(0, b"x"), (1, b"x"), (2, b"x")]
    board.close()


async def test_a_channel_that_another_reader_removed_is_not_read_any_more(pairs):
    board, said = Switchboard(), []
    descriptors = [ours.fileno() for ours, _ in pairs]

    def read_and_remove_the_others(own):
        said.append(own)
        for descriptor in descriptors:
            board.remove(descriptor)

    for descriptor in descriptors:
        board.add(descriptor, lambda descriptor=descriptor: read_and_remove_the_others(descriptor))
    for _, theirs in pairs:
        theirs.send(b"x")
    await turns()
    assert len(said) == 1
    board.close()


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_closing_twice_is_closing_once():
    before = descriptors()
    board = Switchboard()
    assert descriptors() == before + 1
    board.close()
    board.close()
    assert descriptors() == before


async def test_a_child_is_alone_from_its_second_request_in_a_row_and_not_for_ever():
    board = Switchboard()

    def exchange(descriptor):
        alone = board.asks(descriptor)
        board.answered()
        return alone

    assert [exchange(5), exchange(5), exchange(6), exchange(5), exchange(5)] == [False, True, False, False, True]
    seen = [exchange(5) for _ in range(40)]
    assert 4 <= seen.count(False) <= 8
    board.close()


async def test_nobody_is_alone_while_another_waits():
    board = Switchboard()
    board.asks(5)
    board.answered()
    board.asks(6)
    assert [board.asks(5), board.asks(5)] == [False, False]
    board.close()


async def test_a_lone_child_is_watched_for_while_that_succeeds_and_hardly_ever_once_it_does_not():
    board = Switchboard()

    def watches(in_vain):
        wanted = board.watches()
        if wanted:
            board.watched(in_vain=in_vain)
        return wanted

    assert all(watches(in_vain=False) for _ in range(100))
    assert [watches(in_vain=True) for _ in range(7)] == [True, False, True, False, False, False, True]
    assert sum(watches(in_vain=True) for _ in range(10_000)) <= 10_000 // switchboard.LONGEST_REST + 5
    while not board.watches():
        pass
    board.watched(in_vain=False)
    assert all(watches(in_vain=False) for _ in range(100))
    board.close()


async def test_a_crowd_is_answered_in_gathered_rounds_and_a_few_at_once(pairs, monkeypatch):
    monkeypatch.setattr(switchboard, "CROWD", 3)
    board, said = Switchboard(), []
    for number, (ours, theirs) in enumerate(pairs):
        board.add(ours.fileno(), lambda number=number, ours=ours: said.append((number, ours.recv(9))))
        board.asks(ours.fileno())
        theirs.send(b"a")
    await turns()
    assert len(said) == 3
    pairs[0][1].send(b"b")
    await turns()
    assert len(said) == 3
    await asyncio.sleep(10 * switchboard.GATHER)
    assert said[3:] == [(0, b"b")]
    for _ in pairs:
        board.answered()
    await asyncio.sleep(10 * switchboard.GATHER)
    pairs[1][1].send(b"c")
    await turns()
    assert said[4:] == [(1, b"c")]
    board.close()


async def test_closing_while_answers_are_gathered_leaves_no_timer(pairs, monkeypatch):
    monkeypatch.setattr(switchboard, "CROWD", 1)
    board, errors = Switchboard(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: errors.append(told))
    (ours, theirs), *_ = pairs
    board.add(ours.fileno(), lambda: ours.recv(9))
    board.asks(ours.fileno())
    theirs.send(b"a")
    await turns()
    board.close()
    await asyncio.sleep(10 * switchboard.GATHER)  # a timer left would read a closed epoll
    assert errors == []
