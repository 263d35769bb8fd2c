"""Group-relative advantages of the agent."""

from __future__ import annotations

import pytest

from spade_agents.training.advantages import agent_samples, group_advantages
from spade_agents.trajectory import Completion, Outcome, Trajectory, TrajectoryGroup, Turn


def test_returns_1_0_0_1_give_plus_1_minus_1_minus_1_plus_1():
    assert group_advantages([1, 0, 0, 1]) == pytest.approx((1, -1, -1, 1))


def test_the_deviation_is_the_populations():
    advantages = group_advantages([1.0, 0.0, 0.0, 0.0])
    assert advantages == pytest.approx((0.75 / 0.1875**0.5, *(-0.25 / 0.1875**0.5,) * 3))


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
def test_equal_returns_give_exactly_zero(value):
    assert group_advantages([value] * 3) == (0.0, 0.0, 0.0)


def test_missing_plays_enter_neither_mean_nor_deviation():
    assert group_advantages([1.0, None, 0.0, None])[1::2] == (None, None)
    assert group_advantages([1.0, None, 0.0, None])[::2] == pytest.approx((1.0, -1.0))


def test_fewer_than_two_valid_plays_give_no_advantage():
    assert group_advantages([1.0, None, None]) == (None, None, None)
    assert group_advantages([]) == ()


def play(outcome: Outcome, reward: float | None) -> Trajectory:
    completion = Completion(text="", prompt_ids=(1, 2), token_ids=(3,), logprobs=(-0.5,))
    return Trajectory(
        environment_id="e", seed=0, turns=(Turn(completion=completion),), outcome=outcome, reward=reward, fault=None
    )


def group(*plays: Trajectory, hinted: bool = False) -> TrajectoryGroup:
    return TrajectoryGroup(environment_id="e", hinted=hinted, trajectories=plays)


def test_faulted_plays_give_no_sample_and_do_not_move_the_others():
    samples = agent_samples(
        group(
            play(Outcome.SCORED, 1.0),
            play(Outcome.ENVIRONMENT_FAULT, None),
            play(Outcome.SCORED, 0.0),
            play(Outcome.INFRASTRUCTURE_FAULT, None),
        )
    )
    assert [sample.advantage for sample in samples] == pytest.approx([1.0, -1.0])
    assert {sample.group for sample in samples} == {"e"}


def test_a_play_out_of_turns_counts_as_return_0_unless_truncated_plays_are_masked():
    plays = group(play(Outcome.SCORED, 1.0), play(Outcome.SCORED, 1.0), play(Outcome.AGENT_ERROR, 0.0))
    assert [s.advantage for s in agent_samples(plays)] == pytest.approx([2**-0.5, 2**-0.5, -(2**0.5)])
    assert [s.advantage for s in agent_samples(plays, mask_truncated=True)] == [0.0, 0.0]


def test_hinted_plays_are_refused():
    with pytest.raises(ValueError, match="never trained on"):
        agent_samples(group(play(Outcome.SCORED, 1.0), hinted=True))
