from __future__ import annotations

import pytest

from spade_agents.errors import ConfigurationError, UsageError
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.rollout import PlaySettings
from spade_agents.selfplay.pool import Pool
from spade_agents.trajectory import Outcome, Trajectory, TrajectoryGroup
from spade_environments.registry import catalogue
from spade_environments.sandbox import InlineSandboxSettings, open_sandbox
from spade_evals.environments import HeldOut, part_specs, summarise_part

PLAY = PlaySettings(style="compact", sampling=Sampling(max_tokens=64))


async def evaluated(policy, *, seed=1, plays=7, parts=None):
    async with open_sandbox(InlineSandboxSettings()) as sandbox:
        evaluator = HeldOut(
            parts=parts or {"first": catalogue()[:3], "second": catalogue()[8:9]},
            sandbox=sandbox,
            plays=plays,
            play=PLAY,
        )
        return await evaluator(policy, step=4, seed=seed)


async def test_parts_are_reported_apart_each_with_its_number_of_plays():
    summary = await evaluated(ScriptedPolicy.gold())
    assert summary.step == 4
    assert {name: (part.plays, part.missing, part.win_rate) for name, part in summary.parts.items()} == {
        "first": (7, 0, 1.0),
        "second": (7, 0, 1.0),
    }
    assert set(summary.parts["first"].by_skill) == {spec.skill.value for spec in catalogue()[:3]}


async def test_two_policies_meet_the_same_plays_and_another_seed_brings_others():
    gold = await evaluated(ScriptedPolicy.gold())
    silent = await evaluated(ScriptedPolicy.silent())
    other = await evaluated(ScriptedPolicy.silent(), seed=2)
    assert gold.parts["first"].wins.keys() == silent.parts["first"].wins.keys()
    assert not gold.parts["first"].wins.keys() & other.parts["first"].wins.keys()
    assert silent.parts["first"].win_rate == 0.0
    assert silent.parts["first"].low == 0.0
    assert silent.parts["first"].high == pytest.approx(0.5615, abs=1e-4), "Wilson's for 0 of 3 environments"


def named(name):
    return [spec for spec in catalogue() if spec.name == name]


def group(spec, *rewards):
    plays = tuple(
        Trajectory(
            environment_id=spec.id,
            seed=number,
            outcome=Outcome.INFRASTRUCTURE_FAULT if reward is None else Outcome.SCORED,
            reward=reward,
        )
        for number, reward in enumerate(rewards)
    )
    return TrajectoryGroup(environment_id=spec.id, hinted=False, trajectories=plays)


def test_missing_plays_are_counted_beside_the_mean_and_never_as_a_loss():
    first, second = catalogue()[:2]
    part = summarise_part((first, second), [group(first, 1.0, None, 0.0), group(second, 1.0, 1.0)])
    assert (part.plays, part.missing, part.win_rate) == (4, 1, 0.75)
    assert part.by_skill == {first.skill.value: 0.5, second.skill.value: 1.0}
    assert (part.low, part.high) == (0.5, 1.0)


def test_a_part_without_a_valid_play_has_no_win_rate():
    spec = catalogue()[0]
    part = summarise_part((spec,), [group(spec, None, None)])
    assert (part.plays, part.missing, part.win_rate, part.low, part.high) == (0, 2, None, None, None)


def test_a_part_is_the_catalogue_a_pool_or_a_function(tmp_path):
    assert part_specs("catalogue") == catalogue()
    assert part_specs("spade_environments.registry:catalogue") == catalogue()
    assert part_specs("tests.evals.test_environments:named(die_walk)")[0].name == "die_walk"
    pool = Pool(tmp_path / "pool")
    pool.add(catalogue()[0], None)
    pool.index((catalogue()[0].id,))
    assert [spec.id for spec in part_specs(str(tmp_path / "pool"))] == [catalogue()[0].id]


def test_a_part_that_cannot_be_found_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"evaluation\.parts\.known is 'spade_agents:nothing'"):
        part_specs("spade_agents:nothing", "evaluation.parts.known")
    with pytest.raises(UsageError, match="is no pool"):
        part_specs(str(tmp_path))
