"""Plays of catalogue environments in the real sandbox: gold wins, a silent agent does not."""

from __future__ import annotations

import pytest

from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.rollout import GroupRequest, PlaySettings, play_groups
from spade_environments.registry import catalogue
from spade_environments.sandbox import open_sandbox
from tests.agents.tiny import tokenizer

SETTINGS = PlaySettings(sampling=Sampling(max_tokens=2000), style="compact", seconds=120)


@pytest.mark.parametrize("spec", catalogue()[::4], ids=lambda spec: spec.name)
async def test_gold_wins_and_silence_does_not(spec):
    renderer = HermesRenderer(tokenizer(), style="compact")
    request = GroupRequest(spec=spec, seeds=(1, 2))
    async with open_sandbox() as sandbox:
        (gold,) = await play_groups([request], sandbox, ScriptedPolicy.gold(renderer=renderer), settings=SETTINGS)
        (silent,) = await play_groups([request], sandbox, ScriptedPolicy.silent(), settings=SETTINGS)
        (chance,) = await play_groups([request], sandbox, ScriptedPolicy.random(), settings=SETTINGS)
    assert gold.returns == (1.0, 1.0)
    assert silent.returns == (0.0, 0.0)
    assert (silent.missing, chance.missing) == (0, 0)
    for trajectory in gold.trajectories:
        assert trajectory.counters == {}
        assert trajectory.training_sample(advantage=1.0, group=spec.id) is not None
