"""Numbers in sentences."""

from spade_environments.wording import counted


def test_one_of_a_thing_is_told_in_the_singular_and_every_other_number_in_the_plural():
    assert [counted(number, "tool") for number in (0, 1, 2)] == ["0 tools", "1 tool", "2 tools"]
