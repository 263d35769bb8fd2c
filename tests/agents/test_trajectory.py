"""Tokens of a play: exactly as sampled, masked where observed."""

import pytest

from spade_agents.trajectory import Completion, Outcome, Role, Trajectory, TrajectoryGroup, Turn, sample_from


def completion(prompt, sampled, **more):
    logprobs = tuple(-0.1 * (i + 1) for i in range(len(sampled)))
    return Completion(text="", prompt_ids=tuple(prompt), token_ids=tuple(sampled), logprobs=logprobs, **more)


def test_sampled_spans_are_trained_and_observed_ones_are_masked():
    completions = [completion([1, 2], [3, 4]), completion([1, 2, 3, 4, 5], [6], weight_version=7)]
    sample = sample_from(completions, advantage=0.5, group="g", role=Role.AGENT)
    assert sample.token_ids == (1, 2, 3, 4, 5, 6)
    assert sample.mask == (False, False, True, True, False, True)
    assert sample.logprobs == (0.0, 0.0, -0.1, -0.2, 0.0, -0.1)
    assert (sample.advantage, sample.weight_version) == (0.5, 7)


def test_a_prompt_that_was_rendered_again_is_refused():
    with pytest.raises(ValueError, match="re-rendered"):
        sample_from([completion([1], [2]), completion([1, 3], [4])], advantage=1, group="g", role=Role.AGENT)


def play(outcome, reward, *completions):
    turns = tuple(Turn(completion=c) for c in completions)
    return Trajectory(environment_id="e", seed=0, outcome=outcome, reward=reward, turns=turns)


def test_a_group_has_returns_for_valid_plays_only():
    group = TrajectoryGroup(
        environment_id="e",
        hinted=False,
        trajectories=(
            play(Outcome.SCORED, 1.0),
            play(Outcome.AGENT_ERROR, 0.0),
            play(Outcome.ENVIRONMENT_FAULT, None),
            play(Outcome.INFRASTRUCTURE_FAULT, None),
        ),
    )
    assert group.returns == (1.0, 0.0)
    assert group.missing == 2


def test_a_play_without_tokens_has_no_training_sample():
    assert play(Outcome.SCORED, 1.0, Completion(text="hi")).training_sample(advantage=1.0, group="e") is None
