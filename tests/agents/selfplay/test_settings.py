from __future__ import annotations

import pytest

from spade_agents.errors import ConfigurationError
from spade_agents.rewards import LaterBand
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings
from spade_environments.spec import GAME_SKILLS, TOOL_SKILLS


def load(*overrides):
    return load_settings(RunSettings, None, overrides)


def test_skills_are_named_one_by_one_or_as_a_group():
    assert load("designer.skills=games").designer.skills == GAME_SKILLS
    assert load("designer.skills=tools").designer.skills == TOOL_SKILLS
    assert len(load("designer.skills=all").designer.skills) == 12
    assert load("designer.skills=['optimization']").designer.skills == GAME_SKILLS[4:5]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("designer.skills=['chess']", r"designer\.skills"),
        ("designer.skills=[]", "at least one skill"),
        ("run.name=../elsewhere", r"run\.name is '\.\./elsewhere'"),
        ("run.name=", r"run\.name is ''"),
        ("selfplay.hint_plays=99", "both arms share seeds"),
        ("selfplay.hint_plays=0", "needs hinted plays"),
        ("selfplay.play.sampling.top_p=0.9", "bias the ratio"),
        ("designer.call.style=full", "one model plays both roles"),
        ("selfplay.pool.type=none", "nothing to train on"),
        ("reward.type=blnd", "wanted one of 'blend', 'regret_only'"),
        ("reward.regret_scal=1.0", r"did you mean 'reward\.regret_scale'"),
        ("training.engine.optimizer.lr=1.0", "known here: learning_rate"),
        ("training.learning_rate=1.0", r"did you mean 'training\.engine\.optimizer\.learning_rate'"),
        ("sandbox.type=inline", r"this run designs environments; set sandbox\.type to 'local'"),
        ("sandbox.limits.memori=1", r"did you mean 'sandbox\.limits\.memory'"),
    ],
)
def test_settings_that_cannot_work_are_errors_before_anything_runs(override, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        load(override)
    assert caught.value.exit_code == 2


def test_a_band_schedule_is_read_and_an_unknown_key_in_it_refused():
    chosen = load("reward.later=[{rollout=300, band={low=0.2, high=0.4, ramp=0.2}}]")
    assert chosen.reward.later == (LaterBand(rollout=300),)
    with pytest.raises(ConfigurationError, match="bnad"):
        load("reward.later=[{rollout=300, bnad={low=0.2}}]")


def test_every_reward_and_pool_type_can_be_chosen():
    for reward in ("blend", "regret_only", "anchor_only", "learning_potential"):
        assert load(f"reward.type={reward}").reward.type == reward
    for pool in ("designed", "static", "frontier"):
        assert load(f"selfplay.pool.type={pool}").selfplay.pool.type == pool


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (("selfplay.pool.type=static", "selfplay.pool.source=pools/mine"), "the pool is 'pools/mine'"),
        (
            ("selfplay.pool.type=frontier", "evaluation.evaluator=a:b", "evaluation.parts={known='a.b:c'}"),
            r"evaluation\.parts\.known is no catalogue",
        ),
    ],
)
def test_without_isolation_nothing_but_the_catalogue_is_played(overrides, told):
    with pytest.raises(ConfigurationError, match=told):
        load("sandbox.type=inline", *overrides)


def test_the_catalogue_may_be_played_without_isolation():
    chosen = load("sandbox.type=inline", "selfplay.pool.type=static", "evaluation.parts={known='catalogue'}")
    assert chosen.sandbox.type == "inline"
