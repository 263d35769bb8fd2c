"""Axes: round ticks, ranges, places."""

from __future__ import annotations

from spade_agents.report.axes import Axis, covering, round_ticks


def test_a_value_stands_in_proportion_between_the_ends():
    axis = Axis(low=0.0, high=10.0, start=100.0, end=0.0)
    assert axis.place(2.5) == 75.0


def test_a_value_outside_the_range_is_held_at_the_edge():
    axis = Axis(low=0.0, high=1.0, start=0.0, end=50.0)
    assert (axis.place(-3.0), axis.place(9.0)) == (0.0, 50.0)


def test_an_empty_range_puts_everything_in_the_middle():
    assert Axis(low=2.0, high=2.0, start=0.0, end=50.0).place(2.0) == 25.0


def test_ticks_are_multiples_of_one_two_or_five():
    assert round_ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert round_ticks(0, 23) == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert round_ticks(-0.1, 0.3, at_most=5) == [-0.1, 0.0, 0.1, 0.2, 0.3]


def test_ticks_of_counts_are_whole():
    assert round_ticks(0, 2) == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert round_ticks(0, 2, whole=True) == [0.0, 1.0, 2.0]


def test_a_range_without_width_has_one_tick():
    assert round_ticks(3.0, 3.0) == [3.0]


def test_a_range_covers_its_values_in_round_numbers():
    assert covering([0.13, 0.48]) == (0.1, 0.5)
    assert covering([0.13], at_least=(0.0, 1.0)) == (0.0, 1.0)


def test_a_range_of_nothing_is_the_unit_interval():
    assert covering([]) == (0.0, 1.0)


def test_a_single_value_gets_room_on_both_sides():
    low, high = covering([4.0])
    assert low < 4.0 < high
