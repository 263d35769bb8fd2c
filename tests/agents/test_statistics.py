"""Intervals and paired tests against known numbers."""

from __future__ import annotations

import random

import pytest

from spade_agents.statistics import bootstrap_mean, clustered_mean, mcnemar, mean_over_runs, paired_difference, wilson


def test_wilsons_interval_of_eight_in_ten():
    interval = wilson(8, 10)
    assert interval is not None
    assert (interval.estimate, interval.n) == (0.8, 10)
    assert interval.low == pytest.approx(0.4902, abs=1e-4)
    assert interval.high == pytest.approx(0.9433, abs=1e-4)


def test_wilsons_interval_touches_its_ends_and_nothing_beyond():
    none, every = wilson(0, 10), wilson(10, 10)
    assert none is not None
    assert every is not None
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(0.2775, abs=1e-4)
    assert every.low == pytest.approx(0.7225, abs=1e-4)


def test_no_trials_have_no_interval_and_impossible_counts_are_refused():
    assert wilson(0, 0) is None
    with pytest.raises(ValueError, match="wanted 0 <= successes <= trials"):
        wilson(3, 2)


def test_a_clustered_interval_is_wider_than_that_of_independent_plays():
    plays = {f"e{index}": [float(index % 2)] * 20 for index in range(10)}
    clustered = bootstrap_mean(plays, rng=random.Random(0))
    alone = {(name, place): [value] for name, values in plays.items() for place, value in enumerate(values)}
    independent = bootstrap_mean(alone, rng=random.Random(0))
    assert clustered is not None
    assert independent is not None
    assert clustered.estimate == independent.estimate == 0.5
    # Standard errors 0.5/√10 = 0.158 and 0.5/√200 = 0.035.
    assert clustered.high - clustered.low == pytest.approx(2 * 1.96 * 0.158, rel=0.1)
    assert independent.high - independent.low == pytest.approx(2 * 1.96 * 0.0354, rel=0.1)


def test_missing_plays_are_left_out_and_counted():
    interval = bootstrap_mean({"a": [1.0, None, 0.0], "b": [None], "c": [1.0]}, rng=random.Random(0))
    assert interval is not None
    assert (interval.estimate, interval.n, interval.missing) == (pytest.approx(2 / 3), 3, 2)


def test_one_environment_shows_no_spread():
    assert bootstrap_mean({"a": [1.0, 0.0, 1.0]}, rng=random.Random(0)) is None
    assert bootstrap_mean({}, rng=random.Random(0)) is None


def test_the_same_rng_gives_the_same_interval():
    plays = {index: [random.Random(index).random()] for index in range(20)}
    assert bootstrap_mean(plays, rng=random.Random(3)) == bootstrap_mean(plays, rng=random.Random(3))


def test_a_bootstrap_interval_holds_the_truth_about_as_often_as_it_says():
    rng, hits = random.Random(1), 0
    for _ in range(200):
        interval = bootstrap_mean({i: [rng.gauss(0.3, 1.0)] for i in range(40)}, rng=rng, resamples=200)
        assert interval is not None
        hits += interval.low <= 0.3 <= interval.high
    assert hits / 200 == pytest.approx(0.95, abs=0.05)


def test_a_paired_difference_ignores_what_both_sides_share():
    rng = random.Random(0)
    before = [rng.gauss(0.0, 10.0) for _ in range(50)]
    interval = paired_difference(before, [value + 0.1 + rng.gauss(0.0, 0.01) for value in before], rng=rng)
    assert interval is not None
    assert interval.estimate == pytest.approx(0.1, abs=0.005)
    assert interval.low == pytest.approx(0.1, abs=0.01)
    assert interval.excludes_zero


def test_a_pair_with_a_missing_side_is_left_out():
    interval = paired_difference([0.0, None, 1.0, 0.0], [1.0, 1.0, None, 0.0], rng=random.Random(0))
    assert interval is not None
    assert (interval.estimate, interval.n, interval.missing) == (0.5, 2, 2)
    assert not interval.excludes_zero


def test_paired_differences_are_resampled_by_environment():
    before, after = [0.0] * 40, [1.0] * 20 + [0.0] * 20
    by_play = paired_difference(before, after, rng=random.Random(0))
    by_environment = paired_difference(before, after, rng=random.Random(0), clusters=[i // 10 for i in range(40)])
    assert by_play is not None
    assert by_environment is not None
    assert by_environment.high - by_environment.low > 2 * (by_play.high - by_play.low)
    assert paired_difference(before, after, rng=random.Random(0), clusters=["one"] * 40) is None


def test_sides_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        paired_difference([0.0], [0.0, 1.0], rng=random.Random(0))


def test_mcnemars_exact_test_of_eight_gained_and_one_lost():
    before, after = [0.0] * 8 + [1.0] + [1.0] * 5 + [None], [1.0] * 8 + [0.0] + [1.0] * 5 + [1.0]
    result = mcnemar(before, after)
    assert (result.gained, result.lost, result.missing) == (8, 1, 1)
    assert result.p_value == pytest.approx(20 / 512)


def test_mcnemars_test_sees_nothing_where_nothing_changed_or_changes_balance():
    assert mcnemar([1.0, 0.0], [1.0, 0.0]).p_value == 1.0
    assert mcnemar([1.0, 0.0], [0.0, 1.0]).p_value == 1.0


def test_where_nothing_was_ever_won_the_interval_is_wilsons_over_the_environments():
    nothing = bootstrap_mean({str(n): [0.0] * 4 for n in range(100)}, rng=random.Random(0))
    alike = wilson(0, 100)
    assert nothing is not None and alike is not None
    assert (nothing.estimate, nothing.low, nothing.high, nothing.n) == (0.0, 0.0, alike.high, 400)
    assert nothing.high == pytest.approx(0.0370, abs=1e-4)
    everything = bootstrap_mean({str(n): [1.0, None] for n in range(100)}, rng=random.Random(0))
    assert everything is not None
    assert (everything.high, everything.low) == (1.0, pytest.approx(0.9630, abs=1e-4))


def test_no_change_anywhere_is_no_proof_of_no_change():
    # z² = 3.8415: at most 3.8415 / (100 + 3.8415) = 0.0370 of the environments may have changed, by 1 either way.
    for value in (0.0, 0.5, 1.0):
        same = paired_difference(
            [value] * 400, [value] * 400, rng=random.Random(0), clusters=[n // 4 for n in range(400)]
        )
        assert same is not None
        assert (same.estimate, same.n) == (0.0, 400)
        assert (same.low, same.high) == (pytest.approx(-0.03699, abs=1e-5), pytest.approx(0.03699, abs=1e-5))
        assert not same.excludes_zero


def test_the_same_change_everywhere_is_no_proof_that_all_change():
    # u = 3.8415 / (10 + 3.8415) = 0.2775: 1 - u of the environments gained 1, the rest may have lost 1.
    gained = paired_difference([0.0] * 10, [1.0] * 10, rng=random.Random(0))
    assert gained is not None
    assert (gained.estimate, gained.high) == (1.0, 1.0)
    assert gained.low == pytest.approx(1 - 2 * 0.27753, abs=1e-4)
    half = paired_difference([0.0] * 10, [0.5] * 10, rng=random.Random(0))
    assert half is not None
    assert (half.low, half.high) == (pytest.approx(0.08370, abs=1e-4), pytest.approx(0.63876, abs=1e-4))


def test_environments_that_are_all_won_half_the_time_leave_room_on_both_sides():
    # u = 3.8415 / (2 + 3.8415) = 0.6576 of the environments unseen.
    alike = bootstrap_mean({"a": [0.0, 1.0], "b": [1.0, 0.0, 0.0, 1.0]}, rng=random.Random(0))
    assert alike is not None
    assert (alike.estimate, alike.low, alike.high) == (
        0.5, pytest.approx(0.5 - 0.6576 / 2, abs=1e-4), pytest.approx(0.5 + 0.6576 / 2, abs=1e-4),
    )  # fmt: skip
    regrets = bootstrap_mean({"a": [0.0], "b": [0.0]}, rng=random.Random(0), bounds=(-1.0, 1.0))
    assert regrets is not None
    assert (regrets.low, regrets.high) == (pytest.approx(-0.6576, abs=1e-4), pytest.approx(0.6576, abs=1e-4))


def test_a_clustered_mean_has_the_error_of_its_clusters():
    alone = clustered_mean({name: [value] for name, value in zip("abcd", (0.0, 1.0, 1.0, 1.0), strict=True)})
    assert alone is not None
    assert (alone.estimate, alone.standard_error) == (0.75, pytest.approx(0.25))
    # The same eight values: as two clusters of equal ones the error is 0.5, as eight of one each 0.189.
    pair = clustered_mean({"a": [0.0] * 4, "b": [1.0] * 4})
    apart = clustered_mean({number: [float(number % 2)] for number in range(8)})
    assert pair is not None
    assert apart is not None
    assert pair.standard_error == pytest.approx(0.5)
    assert apart.standard_error == pytest.approx((2 / 7 / 8) ** 0.5)
    assert pair.high - pair.low > apart.high - apart.low


def test_a_clustered_mean_leaves_out_what_is_missing_and_needs_two_clusters():
    found = clustered_mean({"a": [1.0, None], "b": [1.0]})
    assert found is not None
    assert (found.estimate, found.n, found.missing) == (1.0, 2, 1)
    assert (found.low, found.high) == (pytest.approx(0.3424, abs=1e-4), 1.0)
    assert clustered_mean({"a": [1.0, 0.0], "b": [None]}) is None


def test_a_mean_over_runs_has_students_interval():
    three = mean_over_runs([1.0, 2.0, 3.0])
    assert three is not None
    assert (three.estimate, three.n) == (2.0, 3)
    assert three.high - 2 == pytest.approx(4.30265 / 3**0.5, abs=1e-4)
    assert 2 - three.low == pytest.approx(three.high - 2)


@pytest.mark.parametrize(("runs", "wanted"), [(2, 12.7062), (4, 3.18245), (5, 2.77645), (8, 2.36462), (31, 2.04227)])
def test_the_interval_uses_the_tabled_quantile_of_its_degrees_of_freedom(runs: int, wanted: float):
    values = [float(number) for number in range(runs)]
    interval = mean_over_runs(values)
    assert interval is not None
    assert interval.standard_error is not None
    assert (interval.high - interval.estimate) / interval.standard_error == pytest.approx(wanted, abs=1e-4)


def test_one_run_or_runs_that_all_agree_show_no_spread():
    assert mean_over_runs([0.5]) is None
    assert mean_over_runs([0.5, 0.5, 0.5]) is None
