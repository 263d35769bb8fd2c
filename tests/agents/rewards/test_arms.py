"""Regret and regimes."""

from __future__ import annotations

import pytest

from spade_agents.rewards import Regime, RegimeThresholds, Regret, mean_return, regime, regime_shares, regret


def test_regret_is_hinted_mean_minus_unhinted_mean():
    arms = regret([1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    assert arms is not None
    assert (arms.hinted, arms.unhinted) == (0.75, 0.25)
    assert arms.raw == 0.5
    assert arms.floored == 0.5


def test_regret_below_zero_is_kept_raw_and_floored_at_zero():
    arms = regret([0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0])
    assert arms is not None
    assert arms.raw == -0.25
    assert arms.floored == 0.0


def test_a_missing_play_is_left_out_of_its_arm_and_never_a_zero():
    arms = regret([1.0, None, 1.0], [None, None, 0.5])
    assert arms is not None
    assert (arms.hinted, arms.unhinted, arms.raw) == (1.0, 0.5, 0.5)


def test_an_arm_without_valid_plays_leaves_regret_missing():
    assert regret([None, None], [1.0, 0.0]) is None
    assert regret([1.0], [None]) is None
    assert regret([], [1.0]) is None


def test_fewer_hinted_plays_compare_with_the_unhinted_plays_of_the_same_seeds_only():
    arms = regret([1.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    assert arms is not None
    assert (arms.hinted, arms.unhinted) == (0.5, 0.0)


def test_mean_return_of_nothing_is_missing():
    assert mean_return([]) is None
    assert mean_return([None]) is None
    assert mean_return([0.0, None, 1.0]) == 0.5


@pytest.mark.parametrize(
    ("hinted", "unhinted", "expected"),
    [
        (1.0, 0.95, Regime.MASTERED),
        (0.9, 0.95, Regime.MASTERED),
        (1.0, 0.9, Regime.FRONTIER),
        (0.05, 0.0, Regime.INTRACTABLE),
        (0.1, 0.0, Regime.FRONTIER),
        (0.6, 0.4, Regime.FRONTIER),
        (0.4, 0.6, Regime.MISLED),
        (0.5, 0.5, Regime.NEUTRAL),
    ],
)
def test_regimes_follow_the_arm_means(hinted, unhinted, expected):
    assert regime(Regret(hinted=hinted, unhinted=unhinted)) is expected


def test_regime_thresholds_are_settings():
    arms = Regret(hinted=0.2, unhinted=0.1)
    assert regime(arms) is Regime.FRONTIER
    assert regime(arms, RegimeThresholds(intractable=0.3)) is Regime.INTRACTABLE
    assert regime(Regret(hinted=1.0, unhinted=0.8), RegimeThresholds(mastered=0.7)) is Regime.MASTERED


def test_regime_shares_name_every_regime_and_sum_to_one():
    shares = regime_shares([Regime.FRONTIER, Regime.FRONTIER, Regime.MISLED, Regime.MASTERED])
    assert shares == {
        Regime.MASTERED: 0.25,
        Regime.INTRACTABLE: 0.0,
        Regime.FRONTIER: 0.5,
        Regime.MISLED: 0.25,
        Regime.NEUTRAL: 0.0,
    }
    assert sum(regime_shares([]).values()) == 0.0
