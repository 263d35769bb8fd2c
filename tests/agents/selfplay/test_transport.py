"""`rollout.transport = "mcp"`: training episodes over an MCP server's URL give the same batches as in process."""

from __future__ import annotations

import pytest

from spade_agents.errors import ConfigurationError
from spade_agents.nano.heldout import heldout_specs
from spade_agents.policy import Sampling, open_policy
from spade_agents.rollout import GroupRequest, PlaySettings, open_transport, play_groups
from spade_agents.training.advantages import agent_samples, group_advantages
from spade_agents.trajectory import Outcome
from spade_environments.sandbox import open_sandbox
from tests.agents.selfplay.scripted import Behaviour, run, settings


async def test_a_scripted_run_trains_on_the_same_samples_over_both_transports(tmp_path):
    batches = {}
    for transport in ("direct", "mcp"):
        chosen = settings("run.rollouts=1", "selfplay.environments=2", f"rollout.transport={transport}")
        resources, state = await run(tmp_path / transport, chosen, Behaviour(skill=0.7))
        assert state.finished
        batches[transport] = resources.engine.batches
    assert any(sample.advantage for samples, _ in batches["direct"] for sample in samples)
    assert batches["mcp"] == batches["direct"]


@pytest.mark.slow
async def test_a_nano_round_over_mcp_gives_the_same_tokens_and_advantages_as_one_in_process():
    requests = [GroupRequest(spec=spec, seeds=(1, 2, 3, 4)) for spec in heldout_specs("known", 3)]
    play = PlaySettings(style="compact", sampling=Sampling(temperature=1.0, max_tokens=96))
    rounds = {}
    async with open_sandbox() as sandbox, open_policy("nano") as policy:
        for transport in ("direct", "mcp"):
            async with open_transport(transport, sandbox) as plays:
                rounds[transport] = await play_groups(requests, plays, policy, settings=play)
    for direct, mcp in zip(rounds["direct"], rounds["mcp"], strict=True):
        assert [sample.token_ids for sample in agent_samples(mcp)] == [s.token_ids for s in agent_samples(direct)]
        assert group_advantages(mcp.returns) == group_advantages(direct.returns)
        assert [t.outcome for t in mcp.trajectories] == [t.outcome for t in direct.trajectories]
        assert [t.counters for t in mcp.trajectories] == [t.counters for t in direct.trajectories]
    assert any(t.outcome is Outcome.SCORED for group in rounds["mcp"] for t in group.trajectories)
    assert len({group.returns for group in rounds["mcp"]} | {(0.0,) * 4}) > 1


def test_a_transport_that_there_is_not_is_refused():
    with pytest.raises(ConfigurationError, match=r"rollout\.transport"):
        settings("rollout.transport=carrier-pigeon")
