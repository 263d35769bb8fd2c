"""Fingerprints and sketches: what makes two sources the same, and how alike others are."""

from __future__ import annotations

import time

import pytest

from spade_environments.certificate import MinHash, NoveltyIndex, fingerprint, normalised_ast


def test_the_normalised_tree_of_a_small_function():
    assert normalised_ast('def double(n):\n    "Twice n."\n    return n * 2') == (
        "Module ( [ FunctionDef ( $0 arguments ( [ ] [ arg ( $1 ) ] [ ] [ ] [ ] ) "
        "[ Return ( BinOp ( Name ( $1 ) Mult 2 ) ) ] [ ] ) ] [ ] )"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "b = 1"),
        ("a = 'x'", "a = 'other words'"),
        ("def f():\n    'doc'\n    return 1", "def g():\n    return 1"),
        ("class A:\n    'doc'", "class B:\n    pass"),
        ("a = 1  # why", "a = 1\n\n"),
        ("f(f'{x} and {y}')", "f(f'{x}, {y}!')"),
        ("import json", "import math"),
        ("a = b'x'", "a = b'y'"),
    ],
)
def test_names_words_and_comments_do_not_make_a_source_new(one, other):
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "a = 2"),
        ("a = 1", "a = 1.0"),
        ("a = b", "a = a"),
        ("a + b", "a - b"),
        ("f(a)", "f(a, b)"),
        ("a = True", "a = None"),
        ("f(x=1)", "f(1)"),
        ("f(f'{x}')", "f(f'{x}{y}')"),
    ],
)
def test_numbers_and_structure_make_a_source_new(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_deep_nesting_does_not_break_the_walk():
    assert normalised_ast("x = " + "-" * 90 + "1").count("USub") == 90
    assert normalised_ast("x = " + " + ".join(["1"] * 900)).count("Add") == 899


def test_the_estimate_is_the_share_of_common_items():
    # 200 of 400 items are common: Jaccard 0.5, standard error sqrt(0.25 / 128) = 0.044.
    one = MinHash.of_items(map(str, range(300)))
    other = MinHash.of_items(map(str, range(100, 400)))
    assert one.similarity(other) == pytest.approx(0.5, abs=0.13)
    assert one.similarity(one) == 1.0
    assert one.similarity(MinHash.of_items(map(str, range(1000, 1300)))) < 0.05


def test_fewer_items_than_bins_are_estimated_too():
    # 60 of 100 items are common, so 0.6; some bins are borrowed, which costs precision.
    one, other = MinHash.of_items(map(str, range(80))), MinHash.of_items(map(str, range(20, 100)))
    assert one.similarity(other) == pytest.approx(0.6, abs=0.2)


def test_an_inserted_line_leaves_sources_alike(desk, dial):
    one = MinHash.of(desk)
    longer = MinHash.of(desk.replace("    max_turns = 8", "    LIMIT = 3\n    max_turns = 8"))
    assert one.similarity(longer) > 0.9
    assert one.similarity(MinHash.of(dial)) < 0.6


def test_an_index_refuses_copies_and_near_copies_and_names_them(desk, dial):
    index = NoveltyIndex([("orders", desk)])
    assert index.admits(dial)[0]
    admitted, evidence = index.admits(desk.replace("OrderDesk", "Returns").replace("order", "parcel"))
    assert (admitted, "orders" in evidence) == (False, True)
    admitted, evidence = index.admits(desk.replace("max_turns = 8", "max_turns = 9"))
    assert (admitted, "similarity" in evidence) == (False, True)
    index.add("locks", dial)
    assert not index.admits(dial)[0]
    assert len(index) == 2
    assert NoveltyIndex().admits(dial) == (True, "nothing to compare with")


def test_a_hundred_sources_take_seconds_at_most(desk):
    index = NoveltyIndex()
    started = time.process_time()
    for number in range(100):
        source = desk.replace("max_turns = 8", f"max_turns = {number}")
        index.admits(source)
        index.add(str(number), source)
    assert time.process_time() - started < 3.0
