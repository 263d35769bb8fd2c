from dataclasses import asdict

import pytest

from spade_environments import Env, Reply, ToolCall
from spade_environments.sandbox import OrderError

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def play(env, seed, actions):
    transcript = [asdict(await env.reset(seed))]
    return transcript + [asdict(await env.step(action)) for action in actions]


async def gold_of(sandbox, spec, seed):
    async with await sandbox.open(spec) as env:
        await env.reset(seed)
        return await env.solution()


async def test_the_gold_solution_of_one_child_wins_in_a_fresh_one(sandbox, desk):
    gold = await gold_of(sandbox, desk, 5)
    async with await sandbox.open(desk) as env:
        assert isinstance(env, Env)
        transcript = await play(env, 5, gold)
    assert [step["reward"] for step in transcript[1:]] == [0.0] * 5 + [1.0]
    assert [step["terminated"] for step in transcript[1:]] == [False] * 5 + [True]


async def test_a_transcript_is_the_same_in_both_zygotes_and_differs_by_seed(sandbox, desk):
    gold = await gold_of(sandbox, desk, 5)
    transcripts = []
    for zygote, seed in ((0, 5), (1, 5), (0, 6)):
        async with await sandbox.open(desk, zygote=zygote) as env:
            transcripts.append(await play(env, seed, gold))
    assert transcripts[0] == transcripts[1] != transcripts[2]


async def test_a_second_reset_starts_in_a_fresh_process(sandbox, make_spec, make_text_env):
    body = make_text_env(top="SEEN = []", step="SEEN.append(action)\nreturn str(len(SEEN)), 0.0, False, False, {}")
    act = ToolCall(name="act", arguments={"action": "x"})
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(1)
        assert [(await env.step(act)).observation.text for _ in range(2)] == ["1", "2"]
        await env.reset(1)
        assert (await env.step(act)).observation.text == "1"


async def test_two_episodes_of_one_environment_share_nothing(sandbox, make_spec, make_text_env):
    body = make_text_env(top="SEEN = []", step="SEEN.append(action)\nreturn str(len(SEEN)), 0.0, False, False, {}")
    act = ToolCall(name="act", arguments={"action": "x"})
    async with await sandbox.open(make_spec(body)) as one, await sandbox.open(make_spec(body)) as two:
        await one.reset(1)
        await two.reset(1)
        assert [(await env.step(act)).observation.text for env in (one, two, one)] == ["1", "1", "2"]


async def test_locked_tools_are_absent_until_a_goal_unlocks_them(sandbox, desk):
    gold = await gold_of(sandbox, desk, 5)
    async with await sandbox.open(desk) as env:
        await env.reset(5)
        assert [tool.name for tool in env.tools] == ["get_order", "cancel_order"]
        assert [tool.name for tool in env.description.tools] == ["get_order", "cancel_order", "refund_order"]
        early = await env.step(gold[4])
        assert early.info == {"error": "unknown_tool"}
        for action in gold[:3]:
            await env.step(action)
        unlocking = await env.step(gold[3])
        assert [tool.name for tool in unlocking.observation.tools] == ["refund_order"]
        assert (await env.step(gold[4])).observation.text == "refunded"


async def test_a_call_is_paired_with_its_result_by_its_id(sandbox, desk):
    async with await sandbox.open(desk) as env:
        await env.reset(5)
        result = await env.step(ToolCall(name="get_order", arguments={"order_id": "none"}, id="c7"))
    assert (result.observation.role, result.observation.call_id) == ("tool", "c7")
    assert result.observation.text == "Error: no order none"


async def test_a_reply_to_a_text_environment_is_an_error_the_agent_reads(sandbox, make_spec, make_text_env):
    async with await sandbox.open(make_spec(make_text_env())) as env:
        await env.reset(0)
        result = await env.step(Reply(text="hello"))
    assert result.observation.role == "user"
    assert "act" in result.observation.text
    assert (result.terminated, result.info["error"]) == (False, "reply")


async def test_after_the_end_a_call_changes_nothing_and_repeats_the_reward(sandbox, desk):
    gold = await gold_of(sandbox, desk, 5)
    async with await sandbox.open(desk) as env:
        await play(env, 5, gold)
        late = await env.step(gold[0])
    assert (late.reward, late.terminated, late.info) == (1.0, True, {"error": "episode_over"})
    assert late.observation.text == "Error: episode over."


async def test_methods_out_of_order_are_told_as_such(sandbox, desk):
    env = await sandbox.open(desk)
    with pytest.raises(OrderError, match="reset"):
        await env.step(Reply(text=""))
    with pytest.raises(OrderError, match="reset"):
        await env.solution()
    await env.aclose()
    await env.aclose()
    with pytest.raises(OrderError, match="closed"):
        await env.reset(0)


async def test_hidden_values_and_the_description_are_there_for_the_certificate(sandbox, desk):
    async with await sandbox.open(desk) as env:
        await env.reset(5)
        values = await env.hidden_values()
    assert "status" in values["state"]
    assert (env.description.base, env.description.class_name, env.description.hidden) == ("tool", "Desk", ("state",))
    assert (env.max_turns, env.description.observability) == (20, "partial")


async def test_there_are_two_zygotes_and_no_third(sandbox, desk):
    with pytest.raises(ValueError, match="use 0 or 1"):
        await sandbox.open(desk, zygote=2)


@pytest.mark.parametrize(
    "line", ["import numpy as np", "import math, numpy as np", "from numpy import array; import numpy as np"]
)
async def test_numpy_is_there_however_it_is_imported(sandbox, make_spec, make_text_env, line):
    body = make_text_env(top=line, step="return str(np.arange(4).sum()), 0.0, False, False, {}")
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        assert (await env.step(ToolCall(name="act", arguments={"action": "x"}))).observation.text == "6"


async def test_an_observation_of_the_longest_length_arrives_whole(sandbox, make_spec, make_text_env):
    body = make_text_env(step="return '\u00e9\u2022' * 16_000, 0.0, False, False, {}")
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        assert (await env.step(ToolCall(name="act", arguments={"action": "x"}))).observation.text == "é•" * 16_000


async def test_an_action_of_the_longest_length_arrives_whole(sandbox, make_spec, make_text_env):
    body = make_text_env(step="return str((len(action), action[-1])), 0.0, False, False, {}")
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        result = await env.step(ToolCall(name="act", arguments={"action": "\u2022" * 31_000 + "x"}))
    assert result.observation.text == "(31001, 'x')"


async def test_control_characters_of_an_observation_never_reach_the_agent(sandbox, make_spec, make_text_env):
    body = make_text_env(reset=r"return 'a\x00b\x1b[2Jc\u202ed\te\nf', {}")
    async with await sandbox.open(make_spec(body)) as env:
        assert (await env.reset(0)).text == "ab[2Jcd\te\nf"
