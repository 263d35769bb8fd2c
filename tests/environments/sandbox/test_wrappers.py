import pytest

from spade_environments import Env, ToolCall
from spade_environments.sandbox import InlineSandboxSettings, OrderError, open_sandbox
from spade_environments.wrappers import OrderEnforcing, TimeLimit, WithHint, Wrapper

ACT = ToolCall(name="act", arguments={"action": "x"})
WIN_AT_3 = {
    "reset": "self.count = 0\nreturn 'go', {}",
    "step": "self.count += 1\nreturn 'ok', float(self.count == 3), self.count == 3, False, {}",
}


@pytest.fixture
async def env(make_spec, make_text_env):
    spec = make_spec(make_text_env(**WIN_AT_3))
    async with open_sandbox(InlineSandboxSettings(), trusted=frozenset({spec.id})) as sandbox:
        yield await sandbox.open(spec)


async def ends(env, steps):
    results = [await env.step(ACT) for _ in range(steps)]
    return [(result.terminated, result.truncated) for result in results]


async def test_a_time_limit_truncates_at_its_last_turn_and_counts_anew_after_reset(env):
    limited = TimeLimit(env, max_turns=2)
    for _ in range(2):
        await limited.reset(0)
        assert await ends(limited, 2) == [(False, False), (False, True)]
    assert (limited.max_turns, env.max_turns) == (2, 20)


async def test_an_episode_won_on_its_last_turn_is_not_truncated(env):
    limited = TimeLimit(env, max_turns=3)
    await limited.reset(0)
    assert await ends(limited, 3) == [(False, False), (False, False), (True, False)]


async def test_a_time_limit_is_the_environments_own_unless_given(env):
    assert TimeLimit(env).max_turns == 20
    with pytest.raises(ValueError, match="at least 1"):
        TimeLimit(env, max_turns=0)


async def test_order_is_enforced_before_reset_and_after_close(env):
    ordered = OrderEnforcing(env)
    assert not ordered.has_reset
    with pytest.raises(OrderError, match="before reset"):
        await ordered.step(ACT)
    await ordered.reset(0)
    assert ordered.has_reset
    await ordered.step(ACT)
    await ordered.aclose()
    await ordered.aclose()
    with pytest.raises(OrderError, match="after aclose"):
        await ordered.step(ACT)
    with pytest.raises(OrderError, match="after aclose"):
        await ordered.reset(0)


async def test_a_hint_stands_once_below_the_first_observation(env):
    hinted = WithHint(env, "count to three")
    assert (await hinted.reset(0)).text == "go\nhint: count to three"
    assert (await hinted.step(ACT)).observation.text == "ok"


async def test_wrappers_nest_are_envs_and_give_the_innermost_back(env):
    nested = TimeLimit(OrderEnforcing(WithHint(env, "h")), max_turns=5)
    assert isinstance(nested, Env)
    assert isinstance(nested, Wrapper)
    assert nested.unwrapped is env
    assert nested.tools == env.tools
    assert (await nested.reset(0)).text == "go\nhint: h"
    await nested.aclose()
