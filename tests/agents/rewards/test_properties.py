"""What holds of rewards and advantages whatever the numbers."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from spade_agents.rewards import Blend, DesignResult, designer_advantages, plateau, score_designs
from spade_agents.training.advantages import group_advantages

share = st.floats(0.0, 1.0)
quick = settings(deadline=None, max_examples=60)


@quick
@given(share)
def test_the_anchor_lies_in_0_and_1_and_is_symmetric_about_its_middle(win_rate: float):
    assert 0.0 <= plateau(win_rate) <= 1.0
    assert math.isclose(plateau(win_rate), plateau(1.0 - win_rate), abs_tol=1e-12)


@quick
@given(st.floats(-1.0, 1.0), share)
def test_the_blend_lies_between_a_rejection_and_one(rho: float, win_rate: float):
    (raw,) = score_designs(Blend(), [DesignResult(skill="a", regret=rho, win_rate=win_rate)]).raw
    assert raw is not None
    assert Blend().rejected < raw <= 1.0 + 1e-12


@quick
@given(st.lists(st.none() | share, max_size=20))
def test_group_advantages_are_missing_where_returns_are_and_sum_to_zero(returns: list[float | None]):
    advantages = group_advantages(returns)
    valid = [value for value in advantages if value is not None]
    assert len(advantages) == len(returns)
    assert math.isclose(math.fsum(valid), 0.0, abs_tol=1e-6)
    if len([value for value in returns if value is not None]) >= 2:
        assert [value is None for value in advantages] == [value is None for value in returns]
    else:
        assert valid == []


@quick
@given(st.lists(st.tuples(st.none() | share, st.sampled_from("abc")), max_size=20))
def test_designer_advantages_sum_to_zero_within_every_skill(attempts: list[tuple[float | None, str]]):
    advantages = designer_advantages([raw for raw, _ in attempts], [skill for _, skill in attempts], weight=32.0)
    for skill in "abc":
        own = [a for a, (_, s) in zip(advantages, attempts, strict=True) if s == skill and a is not None]
        assert math.isclose(math.fsum(own), 0.0, abs_tol=1e-9)
