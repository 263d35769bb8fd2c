"""An episode behind a URL, as the trainer's Env: the same bytes as in process, and faults that stay faults."""

from __future__ import annotations

import pytest

from spade_environments import EnvironmentFault, EnvironmentSpec, FaultKind, HostFault, Reply, Skill, ToolCall
from spade_environments.registry import find
from spade_environments.sandbox import OrderError, open_sandbox
from spade_tools import HttpSettings, open_remote_episodes

BREAKS = '''from spade_environments import Call, Goal, ToolEnv, tool


class Breaks(ToolEnv):
    def setup(self):
        self.state = {}
        if SETUP:
            raise ValueError("a secret of setup")

    @tool
    def touch(self) -> str:
        """Touch it."""
        raise ZeroDivisionError("a secret of touch")

    def goals(self):
        return [Goal("called", "Touch it.", lambda state, calls, reply: bool(calls))]

    def solution(self):
        return [[Call("touch")]]
'''


def breaks(*, setup):
    return EnvironmentSpec(name="breaks", source=BREAKS.replace("SETUP", str(setup)), skill=Skill.ERROR_RECOVERY)


def call(name, **arguments):
    return ToolCall(name=name, arguments=arguments, id="c")


# What a model may write, before and among the gold actions; none of it may be told from what happens in process.
ODD = (
    call("get_task"),
    call("finish_turn", message="done"),
    call("reset", seed=3),
    call("no_such_tool"),
    call("cut_release", version="1.0"),  # still locked
    call("find_task"),
    call("find_task", title=3),
    call("find_task", title="unit tests", extra=1),
    call("find_task", title="x" * 40_000),
    call("burndown", weeks=float("nan")),
    call("burndown", weeks=2**70),
    call("burndown", weeks=1.0),
    call("find_task", title="\ud800"),
    call("find_task", title="ünïcode \u202e\x00 end"),
    ToolCall(name="find_task", arguments='{"title": "unit tests"}', id="c"),
)


async def transcript(env, actions):
    first = await env.reset(3)
    results = [env.tools, env.max_turns, first]
    results += [await env.step(action) for action in actions]
    await env.aclose()
    return results


@pytest.mark.parametrize("name", ["release_board", "die_walk"])
async def test_every_result_is_the_same_as_in_process_whatever_is_done(name):
    spec = find(name)
    async with open_sandbox() as sandbox, open_remote_episodes(sandbox) as episodes:
        async with await sandbox.open(spec) as env:
            await env.reset(3)
            gold = await env.solution()
        actions = [*ODD, *gold, call("find_task", title="over"), Reply(text="over")]
        actions[1:1] = [] if name == "release_board" else [Reply(text="a word to nobody")]
        direct = await transcript(await sandbox.open(spec), actions)
        remote = await transcript(await episodes.open(spec), actions)
        assert remote == direct
        assert direct[-3].terminated
        assert direct[-3].reward == 1.0


async def test_the_gold_actions_come_from_beside_the_episode():
    async with open_sandbox() as sandbox, open_remote_episodes(sandbox) as episodes:
        env = await episodes.open(find("ticket_desk"))
        await env.reset(5)
        results = [await env.step(action) for action in await env.solution()]
        assert results[-1].reward == 1.0
        await env.aclose()


async def test_faults_of_the_environment_are_faults_of_the_same_kind():
    async with open_sandbox() as sandbox, open_remote_episodes(sandbox) as episodes:
        env = await episodes.open(breaks(setup=False))
        await env.reset(0)
        with pytest.raises(EnvironmentFault) as caught:
            await env.step(call("touch"))
        assert (caught.value.kind, caught.value.phase) == (FaultKind.ENV_ERROR, "step")
        assert "secret of touch" in caught.value.detail
        await env.aclose()
        env = await episodes.open(breaks(setup=True))
        with pytest.raises(EnvironmentFault, match="in reset"):
            await env.reset(0)
        await env.aclose()


async def test_an_episode_that_was_ended_from_outside_is_an_infrastructure_fault():
    async with open_sandbox() as sandbox, open_remote_episodes(sandbox) as episodes:
        env = await episodes.open(find("ticket_desk"))
        await env.reset(5)
        await episodes.control.end(env.identity)
        with pytest.raises(HostFault):
            await env.step(call("print_board"))
        await env.aclose()


async def test_a_full_server_is_an_infrastructure_fault_and_closing_makes_room():
    spec, settings = find("ticket_desk"), HttpSettings(max_episodes=1)
    async with open_sandbox() as sandbox, open_remote_episodes(sandbox, settings=settings) as episodes:
        first, second = await episodes.open(spec), await episodes.open(spec)
        await first.reset(0)
        with pytest.raises(HostFault, match="takes no more episodes"):
            await second.reset(0)
        await first.aclose()
        await second.reset(0)
        await second.reset(1)  # a second reset ends the episode before it
        last = second.identity
        assert (await episodes.control.report(last)).phase == "running"
        await second.aclose()
        assert await episodes.control.report(last) is None


async def test_methods_out_of_order_are_told_so():
    async with open_sandbox() as sandbox, open_remote_episodes(sandbox) as episodes:
        env = await episodes.open(find("ticket_desk"))
        with pytest.raises(OrderError):
            await env.step(call("print_board"))
        await env.aclose()
        with pytest.raises(OrderError):
            await env.reset(0)
