from __future__ import annotations

from math import comb

import pytest

from spade_agents.power import drop_p_value, drop_power, pairs_needed, share_upper_bound, smallest_visible_drop


def test_the_p_value_counts_the_ways_in_which_so_many_losses_or_more_fall():
    assert drop_p_value(8, 1) == pytest.approx(10 / 512)
    assert drop_p_value(0, 0) == 1.0
    assert drop_p_value(1, 8) == pytest.approx(511 / 512)


def test_many_changed_pairs_are_summed_without_loss():
    exact = sum(comb(1200, count) for count in range(630, 1201)) / 2**1200
    assert drop_p_value(630, 570) == pytest.approx(exact, rel=1e-9)


def test_the_bound_of_a_share_is_never_nothing():
    assert share_upper_bound(0, 10) == pytest.approx(1 - 0.05**0.1)
    assert share_upper_bound(10, 10) == 1.0
    # At the bound, 200 or fewer of 800 are seen in 5 % of samples.
    bound = share_upper_bound(200, 800)
    seen = sum(comb(800, count) * bound**count * (1 - bound) ** (800 - count) for count in range(201))
    assert seen == pytest.approx(0.05, abs=1e-6)
    with pytest.raises(ValueError, match="found 3 successes in 2 trials"):
        share_upper_bound(3, 2)


def test_the_power_is_the_chance_summed_over_every_outcome():
    # 5 pairs that all change, each lost: p = 1/32 < 0.05, so the drop of 1 is always seen; with 4 pairs never.
    assert drop_power(5, 1.0, drop=1.0) == pytest.approx(1.0)
    assert drop_power(4, 1.0, drop=1.0) == 0.0
    # 6 pairs, all changed, lost with probability 0.75: all 6 must be lost, 0.75**6 (5 of 6 have p = 7/64).
    assert drop_power(6, 1.0, drop=0.5) == pytest.approx(0.75**6)


def test_a_tolerance_beyond_the_drop_hides_it():
    assert drop_power(800, 0.25, max_drop=0.02) > 0.85
    assert drop_power(800, 0.25, max_drop=0.08) < 0.05
    assert pairs_needed(0.25, max_drop=0.05) is None


def test_the_pairs_needed_reach_the_power_and_few_less_do_not():
    needed = pairs_needed(0.25, max_drop=0.02)
    assert needed is not None
    assert drop_power(needed, 0.25, max_drop=0.02) >= 0.8
    assert drop_power(int(needed * 0.97), 0.25, max_drop=0.02) < 0.8


def test_the_smallest_visible_drop_has_the_power_asked_for():
    drop = smallest_visible_drop(800, 0.25)
    assert drop is not None
    assert drop_power(800, 0.25, drop=drop) == pytest.approx(0.8, abs=0.01)
    assert smallest_visible_drop(4, 1.0) is None
