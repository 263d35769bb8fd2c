"""Values in another form: found where they stand, and not made up out of honest words."""

from __future__ import annotations

import pytest

from spade_environments.certificate.disguise import stands_disguised


@pytest.mark.parametrize(
    "text",
    [
        "l-a-n-t-e-r-n",
        "L A N T E R N, said slowly",
        "(l/a/n/t/e/r/n)",
        "the word nretnal",
        "ynagrea",
        "bGFudGVybg==",
        "6c616e7465726e",
        "6C 61 6E 74 65 72 6E",
        "108 97 110 116 101 114 110",
    ],
)
def test_a_word_is_found_in_its_disguises(text):
    assert stands_disguised(text, "lantern")


@pytest.mark.parametrize("text", ["four eight two one three", "3-1-2-8-4", "4 8 2 1 3", "31284", "bc55", "NDgyMTM="])
def test_a_number_is_found_in_its_disguises(text):
    assert stands_disguised(text, "48213")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Go forward, and toward the lantern.", "draw"),
        ("Find the lantern in the room.", "moor"),
        ("An honest text about numbers: 48 and 213, or 4821.", "48214"),
        ("Halve the range each time.", "50"),
        ("aaaa bbbb", "aaaaaa"),
        ("", "lantern"),
        ("anything at all", ""),
        ("the lanterns", "lantern"),
    ],
)
def test_honest_words_are_no_disguise(text, value):
    assert not stands_disguised(text, value)


def test_a_word_inside_a_longer_one_counts_where_that_is_asked_for():
    assert stands_disguised("xqlanternzk", "lantern", inside=True)


def test_two_words_of_a_list_are_not_put_together_to_a_value():
    assert not stands_disguised("The lamps are amber, coral, ochre and teal.", "amber coral", inside=True)
