"""Diversity of a set of designs: hand-computed numbers and the collapse alarm."""

from __future__ import annotations

import math

import pytest

from spade_agents.diversity import (
    CollapseSettings,
    Diversity,
    collapse_alarm,
    distinct_share,
    largest_share,
    longest_run,
    measure,
    tfidf_similarity,
    vendi_score,
)


def diversity(**changes: float) -> Diversity:
    values = {"designs": 64, "distinct_share": 0.8, "largest_family": 0.2, "vendi": 0.6, **changes}
    return Diversity(**values)


def test_three_of_four_equal_keys_are_half_distinct_and_hold_three_quarters():
    assert distinct_share(["a", "b", "a", "a"]) == 0.5
    assert largest_share(["a", "b", "a", "a"]) == 0.75


def test_an_empty_set_has_no_diversity():
    assert (distinct_share([]), largest_share([]), vendi_score([])) == (0.0, 0.0, 0.0)
    assert measure([], [], []) == Diversity(designs=0, distinct_share=0.0, largest_family=0.0, vendi=0.0)


def test_the_vendi_score_counts_alike_items_once_and_unlike_items_each():
    assert vendi_score([[1.0, 1.0, 1.0]] * 3) == pytest.approx(1.0)
    assert vendi_score([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) == pytest.approx(3.0)


def test_the_vendi_score_of_two_half_alike_items_is_the_hand_computed_one():
    # K/2 has eigenvalues 3/4 and 1/4; exp(-(3/4 ln 3/4 + 1/4 ln 1/4)) = 4 / 3^(3/4).
    assert vendi_score([[1.0, 0.5], [0.5, 1.0]]) == pytest.approx(4 / 3**0.75)


def test_the_similarity_of_texts_is_their_weighted_cosine():
    # Runs of one token: "a" in both texts weighs 1, "b" and "c" in one of two weigh ln(3/2) + 1.
    rare = math.log(3 / 2) + 1
    wanted = 1 / (1 + rare**2)
    matrix = tfidf_similarity(["a b", "a c"], shingle=1)
    assert matrix[0][1] == pytest.approx(wanted)
    assert matrix[1][0] == pytest.approx(wanted)
    assert matrix[0][0] == 1.0


def test_equal_texts_are_alike_and_texts_without_a_common_run_are_not():
    matrix = tfidf_similarity(["x = 1 + 2", "x = 1 + 2", "while true : pass"])
    assert matrix[0][1] == pytest.approx(1.0)
    assert matrix[0][2] == 0.0


def test_texts_shorter_than_a_run_are_compared_whole():
    matrix = tfidf_similarity(["a", "a", "b", ""])
    assert matrix[0][1] == pytest.approx(1.0)
    assert matrix[0][2] == 0.0
    assert matrix[0][3] == 0.0


def test_measuring_designs_joins_all_three_numbers():
    found = measure(["a b c d", "a b c d"], ["f", "f"], ["x", "y"])
    assert found.distinct_share == 0.5
    assert found.largest_family == 0.5
    assert found.vendi == pytest.approx(0.5)


def test_measuring_designs_refuses_sequences_of_different_length():
    with pytest.raises(ValueError, match="found 1 sources, 2 fingerprints"):
        measure(["a"], ["f", "g"], ["x"])


def test_a_diverse_set_raises_no_alarm():
    assert collapse_alarm(diversity()) == ()


def test_repeated_designs_raise_the_alarm():
    (told,) = collapse_alarm(diversity(distinct_share=0.25))
    assert told == "25% of 64 designs are distinct; wanted at least 50%"


def test_one_ruling_family_raises_the_alarm():
    (told,) = collapse_alarm(diversity(largest_family=0.75))
    assert told == "one family holds 75% of 64 designs; wanted at most 50%"


def test_near_copies_raise_the_alarm_by_their_vendi_score_alone():
    (told,) = collapse_alarm(diversity(vendi=0.125))
    assert told == "64 designs are as diverse as 8.0 unlike ones; wanted at least 16.0 (Vendi score)"
    assert collapse_alarm(diversity(vendi=0.25)) == ()
    assert collapse_alarm(diversity(vendi=0.125), CollapseSettings(min_vendi=0.1)) == ()


def test_a_set_of_one_program_with_other_numbers_is_a_collapse_and_unlike_programs_are_none():
    word = "class Desk: " + " ".join(f"w{k}" for k in range(100)) + " {n} end"
    copies = [word.format(n=n) for n in range(8)]
    measured = measure(copies, [str(n) for n in range(8)], [str(n) for n in range(8)])
    assert measured.vendi < 0.25
    assert len(collapse_alarm(measured)) == 1
    unlike = [" ".join(f"w{n}_{k}" for k in range(12)) for n in range(8)]
    assert collapse_alarm(measure(unlike, unlike, unlike)) == ()


def test_of_a_handful_of_designs_nothing_is_said():
    few = diversity(designs=3, distinct_share=1 / 3)
    assert collapse_alarm(few) == ()
    assert collapse_alarm(few, CollapseSettings(min_designs=3)) != ()


def test_the_longest_run_counts_neighbours_that_are_alike():
    assert longest_run([]) == 1
    assert longest_run([False, True, True, False, True]) == 3
    marks = ["a", "b", "b", "b", "a", "a"]
    assert measure(marks, marks, marks).longest_run == 3
    assert measure([], [], []).longest_run == 0


def test_near_duplicates_need_not_be_equal():
    sources = ["x = 1", "x = 12", "x = 123", "while True: pass"]
    found = measure(sources, sources, sources, near=lambda before, after: after.startswith(before))
    assert found.longest_run == 3


def test_a_long_run_of_near_duplicates_raises_the_alarm_where_nothing_else_does():
    assert collapse_alarm(diversity(longest_run=4)) == ()
    (told,) = collapse_alarm(diversity(longest_run=5))
    assert told == "5 designs in a row are near-duplicates, each of the one before it; wanted at most 4"
