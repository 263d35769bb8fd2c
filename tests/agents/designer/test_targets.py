"""The difficulty aimed at."""

import pytest

from spade_agents.designer.memory import Memory
from spade_agents.designer.targets import TargetSettings, target_of
from spade_environments import Skill
from tests.agents.designer.test_memory import RETRIEVAL, record

FOLLOWS = TargetSettings(follows=True)


def test_the_target_stays_at_its_start_in_the_papers_recipe():
    memory = Memory.of([record(1, win_rate=1.0)])
    assert target_of(RETRIEVAL, memory, TargetSettings()) == 0.5
    assert target_of(RETRIEVAL, None, FOLLOWS) == 0.5


def test_it_rises_with_what_the_agent_wins_round_by_round():
    memory = Memory.of([record(1, win_rate=0.9), record(2, win_rate=0.7), record(3, win_rate=0.4, rollout=4)])
    # 0.5 + 0.5 * (0.8 - 0.5) = 0.65, then 0.65 + 0.5 * (0.4 - 0.5) = 0.60
    assert target_of(RETRIEVAL, memory, FOLLOWS) == pytest.approx(0.60)
    assert target_of(Skill.CAUSAL_INFERENCE, memory, FOLLOWS) == 0.5


def test_it_stops_at_its_bounds_and_turns_back_from_there():
    rounds = [record(n, win_rate=1.0, rollout=n) for n in range(4)]
    assert target_of(RETRIEVAL, Memory.of(rounds), FOLLOWS) == 0.9
    assert target_of(RETRIEVAL, Memory.of([*rounds, record(9, win_rate=0.3, rollout=9)]), FOLLOWS) == pytest.approx(0.8)


def test_bounds_that_do_not_rise_are_refused():
    with pytest.raises(ValueError, match="wanted them to rise"):
        TargetSettings(start=0.95)
