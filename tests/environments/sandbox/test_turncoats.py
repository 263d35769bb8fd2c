"""Programs that would decide by themselves what the base decides, or put more than words into what they say."""

import pytest

from spade_environments import EnvironmentFault, FaultKind, Reply
from tests.environments.sandbox.test_hostile import ACT, TOOL_ENV

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNLOCKED = "self._unlocked_now = ()"
TURNCOATS = {
    "an instance with a step of its own": (
        "", f"{UNLOCKED}; self.step = lambda action: ('won', 1.0, True, False, {{}})",
    ),
    "an instance with tools of its own": ("", "self.available_tools = lambda: ('act', 'other')"),
    "a goal that is met by nothing": ("Goal.met = lambda *_: True\n", "pass"),
    "goals of a kind of its own": ("", "Mine = type('Mine', (Goal,), {'met': lambda *_: True}); self.kind = Mine"),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNCOATS)
async def test_what_the_base_decides_no_designed_class_takes_over(name, sandbox, make_spec):
    top, setup = TURNCOATS[name]
    body = TOOL_ENV.replace("{SETUP}", f"0\n        {setup}").replace("{CHECK}", "False")
    goals = "if hasattr(self, 'kind'): return [self.kind('state', 'Do it.', lambda *_: False)]"
    body = top + body.replace("{TOOL}", "self.state += 1").replace("{GOALS}", goals)
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        assert [tool.name for tool in env.tools] == ["act"]
        await env.step(ACT)
        result = await env.step(Reply(text="done"))
    assert (result.reward, result.terminated) == (0.0, True)


async def test_a_base_that_was_spoilt_is_refused_at_load(sandbox, make_spec):
    body = TOOL_ENV.replace("{SETUP}", "0").replace("{CHECK}", "False").replace("{TOOL}", "pass")
    spoilt = "ToolEnv.step = lambda self, action: ('won', 1.0, True, False, {})\n" + body.replace("{GOALS}", "pass")
    with pytest.raises(EnvironmentFault, match="has a step of its own") as caught:
        await sandbox.open(make_spec(spoilt))
    assert caught.value.kind is FaultKind.REJECT


async def test_what_an_exception_says_is_cleaned_as_observations_are(sandbox, make_spec, make_text_env):
    spec = make_spec(make_text_env(step=r"raise ValueError('\x1b[2J\x9b2J\u202egone\x7f\x00')"))
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        with pytest.raises(EnvironmentFault) as caught:
            await env.step(ACT)
    assert caught.value.detail.startswith("ValueError: [2J2Jgone (line")
    assert str(caught.value).isprintable()


async def test_a_tool_that_is_unlocked_over_and_over_was_there_all_along(sandbox, make_spec):
    body = TOOL_ENV.replace("{SETUP}", "0").replace("{CHECK}", "False").replace("{GOALS}", "pass")
    spec = make_spec(body.replace("{TOOL}", "self._unlocked_now = ['act'] * 10_000"))
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        assert (await env.step(ACT)).observation.tools == ()


async def test_a_goal_that_unlocks_a_tool_twice_unlocks_it_once(sandbox, make_spec):
    first = "return [Goal('state', 'Do it.', lambda *_: True, unlocks=('more', 'more')),"
    goals = f"{first} Goal('state', 'Again.', lambda *_: True)]"
    body = TOOL_ENV.replace("{SETUP}", "0").replace("{CHECK}", "False").replace("{GOALS}", goals)
    more = "\n    @tool\n    def more(self) -> str:\n        'Do more.'\n        return 'more'\n"
    async with await sandbox.open(make_spec(body.replace("{TOOL}", "self.state += 1") + more)) as env:
        await env.reset(0)
        await env.step(ACT)
        assert [tool.name for tool in (await env.step(Reply(text=""))).observation.tools] == ["more"]


async def test_a_program_that_unreserves_a_name_is_refused_when_it_takes_it(sandbox, make_spec):
    body = TOOL_ENV.replace("{SETUP}", "0").replace("{CHECK}", "False").replace("{TOOL}", "pass")
    taken = body.replace("{GOALS}", "pass").replace("def act(", "def get_task(")
    with pytest.raises(EnvironmentFault, match="'get_task' is reserved"):
        await sandbox.open(
            make_spec(f"import spade_environments\nspade_environments.RESERVED_TOOL_NAMES = ()\n{taken}")
        )


async def test_builtins_of_its_own_give_a_failure_no_other_name(sandbox, make_spec, make_text_env):
    spec = make_spec(make_text_env(step="__builtins__['isinstance'] = lambda *_: True; raise ValueError('wrong')"))
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        with pytest.raises(EnvironmentFault) as caught:
            await env.step(ACT)
    assert caught.value.kind is FaultKind.ENV_ERROR
