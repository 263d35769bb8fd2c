"""Raw rewards of designs: every number by hand."""

from __future__ import annotations

import json

import pytest

from spade_agents.rewards import (
    LATE_BAND,
    AnchorOnly,
    Averages,
    Band,
    Blend,
    DesignResult,
    LaterBand,
    LearningPotential,
    PotentialState,
    RegretOnly,
    needs_hinted_plays,
    plateau,
    reward_at,
    scaled_regret,
    score_designs,
)


@pytest.mark.parametrize(
    ("win_rate", "expected"),
    [(0.0, 0), (0.15, 0), (0.20, 0.2), (0.30, 0.6), (0.40, 1), (0.5, 1), (0.60, 1), (0.70, 0.6), (0.85, 0), (1.0, 0)],
)
def test_the_anchor_is_a_plateau_with_linear_ramps(win_rate, expected):
    assert plateau(win_rate) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("win_rate", "expected"), [(0.1, 0.5), (0.2, 1), (0.4, 1), (0.5, 0.5), (0.6, 0)])
def test_the_late_band_asks_for_harder_environments(win_rate, expected):
    assert plateau(win_rate, LATE_BAND) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("regret", "expected"), [(-0.3, 0), (0, 0), (0.06, 0.4), (0.15, 1), (0.9, 1)])
def test_regret_is_clipped_at_its_scale(regret, expected):
    assert scaled_regret(regret) == pytest.approx(expected)


def test_the_blend_of_regret_006_and_win_rate_030_is_052():
    scored = score_designs(Blend(), [DesignResult(skill="a", regret=0.06, win_rate=0.30)])
    assert scored.raw == (pytest.approx(0.52),)


def test_the_blend_of_full_regret_inside_the_band_is_one():
    scored = score_designs(Blend(), [DesignResult(skill="a", regret=0.4, win_rate=0.5)])
    assert scored.raw == (pytest.approx(1.0),)


def test_a_rejected_attempt_earns_minus_02_under_every_reward():
    for config in (Blend(), RegretOnly(), AnchorOnly(), LearningPotential()):
        assert score_designs(config, [DesignResult(skill="a", rejected=True)]).raw == (-0.2,)
    assert score_designs(Blend(rejected=-0.5), [DesignResult(skill="a", rejected=True)]).raw == (-0.5,)


def test_a_missing_arm_leaves_the_reward_missing_and_never_zero():
    no_regret = DesignResult(skill="a", regret=None, win_rate=0.5)
    no_win_rate = DesignResult(skill="a", regret=0.1, win_rate=None)
    assert score_designs(Blend(), [no_regret, no_win_rate]).raw == (None, None)
    assert score_designs(RegretOnly(), [no_regret, no_win_rate]).raw == (None, pytest.approx(2 / 3))
    assert score_designs(AnchorOnly(), [no_regret, no_win_rate]).raw == (1.0, None)
    assert score_designs(LearningPotential(), [no_regret, no_win_rate]).raw == (0.0, None)


def test_only_rewards_with_regret_need_hinted_plays():
    needing = [needs_hinted_plays(c) for c in (Blend(), RegretOnly(), AnchorOnly(), LearningPotential())]
    assert needing == [True, True, False, False]


def test_learning_potential_scores_the_distance_from_the_slow_average_before_the_round():
    state = PotentialState(skills={"a": Averages(fast=0.5, slow=0.4)})
    designs = [DesignResult(skill="a", win_rate=0.1), DesignResult(skill="a", win_rate=0.9)]
    scored = score_designs(LearningPotential(), designs, state)
    assert scored.raw == (pytest.approx(0.3), pytest.approx(0.5))
    assert scored.state.skills["a"].fast == pytest.approx(0.02 * 0.5 + 0.98 * 0.5)
    assert scored.state.skills["a"].slow == pytest.approx(0.15 * 0.4 + 0.85 * 0.5)


def test_the_fast_average_follows_a_jump_closer_than_the_slow_one():
    state = PotentialState(skills={"a": Averages(fast=0.0, slow=0.0)})
    after = score_designs(LearningPotential(), [DesignResult(skill="a", win_rate=1.0)], state).state
    assert (after.skills["a"].fast, after.skills["a"].slow) == (pytest.approx(0.98), pytest.approx(0.85))


def test_learning_potential_starts_a_skill_at_its_first_rounds_mean():
    designs = [DesignResult(skill="new", win_rate=0.2), DesignResult(skill="new", win_rate=0.6)]
    scored = score_designs(LearningPotential(), designs)
    assert scored.raw == (pytest.approx(0.2), pytest.approx(0.2))
    assert scored.state.skills["new"].slow == pytest.approx(0.4)


def test_rejected_and_unplayed_designs_do_not_move_the_averages():
    state = PotentialState(skills={"a": Averages(fast=0.5, slow=0.5)})
    designs = [DesignResult(skill="a", rejected=True), DesignResult(skill="a")]
    assert score_designs(LearningPotential(), designs, state).state == state


def test_the_potential_state_survives_json():
    state = PotentialState(skills={"b": Averages(fast=0.1, slow=0.2), "a": Averages(fast=0.3, slow=0.4)})
    assert PotentialState.from_json(json.loads(json.dumps(state.to_json()))) == state


def test_a_band_that_is_no_band_is_refused():
    with pytest.raises(ValueError, match="wanted 0 <= low <= high <= 1"):
        Band(low=0.6, high=0.4)
    with pytest.raises(ValueError, match="ramp above 0"):
        Band(ramp=0.0)


def test_a_later_band_holds_from_its_rollout_on_and_leaves_the_rest_of_the_reward_alone():
    middle = Band(low=0.3, high=0.5)
    config = Blend(regret_weight=0.5, later=(LaterBand(rollout=300), LaterBand(rollout=100, band=middle)))
    assert [reward_at(config, rollout).band for rollout in (0, 99)] == [Band()] * 2
    assert [reward_at(config, rollout).band for rollout in (100, 299, 300, 999)] == [
        middle,
        middle,
        LATE_BAND,
        LATE_BAND,
    ]
    assert reward_at(config, 300).regret_weight == 0.5
    assert reward_at(AnchorOnly(later=(LaterBand(rollout=0),)), 0).band == LATE_BAND
    assert reward_at(RegretOnly(), 300) == RegretOnly()
