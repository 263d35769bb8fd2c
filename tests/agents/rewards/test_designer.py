"""Designer advantages and the weight of the role."""

from __future__ import annotations

import pytest

from spade_agents.rewards import FixedWeight, RatioWeight, designer_advantages, role_weight


def test_raw_052_100_minus_020_of_one_skill_give_plus_008_plus_056_minus_064():
    assert designer_advantages([0.52, 1.00, -0.20], ["a"] * 3) == pytest.approx((0.08, 0.56, -0.64))


def test_each_skill_is_centred_on_its_own_mean():
    advantages = designer_advantages([1.0, 0.0, 0.6, 0.2], ["a", "b", "a", "b"])
    assert advantages == pytest.approx((0.2, -0.1, -0.2, 0.1))


def test_the_role_weight_multiplies():
    assert designer_advantages([1.0, 0.0], ["a", "a"], weight=32.0) == pytest.approx((16.0, -16.0))


def test_a_missing_raw_reward_stays_missing_and_enters_no_mean():
    assert designer_advantages([1.0, None, 0.0], ["a"] * 3) == (0.5, None, -0.5)


def test_a_lone_attempt_of_a_skill_has_no_advantage_over_itself():
    assert designer_advantages([0.7], ["a"]) == (0.0,)


@pytest.mark.parametrize(
    ("agent", "designer", "period", "expected"),
    [(24 * 8, 24, 4, 32), (24 * 16, 24, 4, 50), (16 * 16, 16, 32, 50), (10, 20, 1, 0.5)],
)
def test_the_ratio_weight_is_capped_at_50(agent, designer, period, expected):
    assert role_weight(RatioWeight(), agent_samples=agent, designer_samples=designer, period=period) == expected


def test_a_fixed_weight_ignores_counts():
    assert role_weight(FixedWeight(value=2.0), agent_samples=9, designer_samples=0, period=4) == 2.0


def test_a_ratio_without_designer_samples_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        role_weight(RatioWeight(), agent_samples=9, designer_samples=0, period=4)
