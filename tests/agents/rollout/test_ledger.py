"""The token ledger: sources, both log-probabilities, drift, and the mismatch worked out by hand."""

from __future__ import annotations

import math

import pytest

from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.rollout import play
from spade_agents.rollout.ledger import TokenSource, mismatch_of, token_ledger
from spade_agents.trajectory import Completion, Outcome, Trajectory, Turn
from tests.agents.rollout.worlds import Counter
from tests.agents.tiny import tokenizer


def two_turns() -> Trajectory:
    first = Completion(text="", prompt_ids=(1, 2), token_ids=(3, 4), logprobs=(-1.0, -2.0), weight_version=5)
    second = Completion(text="", prompt_ids=(1, 2, 3, 4, 9), token_ids=(6,), logprobs=(-0.5,), weight_version=5)
    turns = (Turn(completion=first), Turn(completion=second))
    return Trajectory(environment_id="e", seed=0, turns=turns, outcome=Outcome.SCORED, reward=1.0)


def named(ids) -> str:
    return "".join(f"<{number}>" for number in ids)


def test_each_token_has_its_source_turn_and_both_log_probabilities():
    rows = token_ledger(two_turns(), named, trainer=(0.0, 0.0, -1.0, -2.5, 0.0, -0.55))
    opening, agent, observation = TokenSource.OPENING, TokenSource.AGENT, TokenSource.OBSERVATION
    assert [row.source for row in rows] == [opening, opening, agent, agent, observation, agent]
    assert [row.token_id for row in rows] == [1, 2, 3, 4, 9, 6]
    assert [row.text for row in rows] == ["<1>", "<2>", "<3>", "<4>", "<9>", "<6>"]
    assert [row.turn for row in rows] == [0, 0, 0, 0, 1, 1]
    assert [row.trained for row in rows] == [False, False, True, True, False, True]
    assert [row.sampler for row in rows] == [None, None, -1.0, -2.0, None, -0.5]
    assert [row.trainer for row in rows] == [None, None, -1.0, -2.5, None, -0.55]
    assert [row.weight_version for row in rows] == [None, None, 5, 5, None, 5]
    assert [row.place for row in rows if row.drifts] == [3]
    assert [
        row.place
        for row in token_ledger(two_turns(), named, trainer=[0.0] * 2 + [-1.0, -2.5, 0.0, -0.55], drift=0.01)
        if row.drifts
    ] == [3, 5]


def test_the_mismatch_is_that_of_the_ratios():
    # Ratios 1, e^-0.5 = 0.60653 and e^-0.05 = 0.95123: sum 2.55776, squares 1 + 0.36788 + 0.90484 = 2.27272.
    found = mismatch_of(token_ledger(two_turns(), named, trainer=(0.0, 0.0, -1.0, -2.5, 0.0, -0.55)))
    assert (found.tokens, found.drifted, found.ratio_max) == (3, 1, 1.0)
    assert found.ratio_mean == pytest.approx(2.55776 / 3, abs=1e-4)
    assert found.effective_sample_size == pytest.approx(2.55776**2 / (3 * 2.27272), abs=1e-4)


def test_a_trainer_that_says_nothing_finite_drifts():
    rows = token_ledger(two_turns(), named, trainer=(0.0, 0.0, -1.0, math.nan, 0.0, -0.5))
    assert [row.place for row in rows if row.drifts] == [3]


def test_without_a_trainer_there_is_a_ledger_and_no_mismatch():
    rows = token_ledger(two_turns(), named)
    assert [row.sampler for row in rows if row.trained] == [-1.0, -2.0, -0.5]
    assert not any(row.drifts for row in rows)
    assert mismatch_of(rows) is None
    with pytest.raises(ValueError, match="5 log-probabilities of the trainer for 6 tokens"):
        token_ledger(two_turns(), named, trainer=[0.0] * 5)


async def test_the_ledger_of_a_play_is_its_training_sample():
    policy = ScriptedPolicy(lambda conversation, source: "act", renderer=HermesRenderer(tokenizer(), style="compact"))
    trajectory = await play(Counter(), policy, sampling=Sampling(), seed=0)
    sample = trajectory.training_sample(advantage=1.0, group="g")
    rows = token_ledger(trajectory, tokenizer().decode)
    assert tuple(row.token_id for row in rows) == sample.token_ids
    assert tuple(row.trained for row in rows) == sample.mask
    assert tuple(row.sampler or 0.0 for row in rows) == sample.logprobs
