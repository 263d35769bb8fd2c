"""McpEnv: a user's own MCP server as an environment; what is the server's doing is never a score."""

from __future__ import annotations

import time

import pytest

from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rollout import play
from spade_agents.trajectory import Outcome
from spade_environments import EnvironmentFault, HostFault, Reply, ToolCall
from spade_tools import McpEnv, McpTask
from tests.tools.foreign_servers import Shelf, brittle

TASKS = [
    McpTask(
        instruction=f"Add a note that says {word}.",
        data={"word": word},
        solution=(ToolCall(name="add_note", arguments={"text": word}), Reply(text="done")),
    )
    for word in ("hello", "goodbye")
]


async def clear(toolset, task, rng):
    await toolset.call(ToolCall(name="clear", arguments={}))


async def notes_hold_the_word(play):
    notes = await play.toolset.call(ToolCall(name="read_notes", arguments={}))
    return float(notes.text == play.task.data["word"])


def shelf_env(shelf, checker=notes_hold_the_word, **options):
    return McpEnv(shelf.server, TASKS, checker, clear, hidden=("clear",), **options)


async def test_the_solution_is_scored_by_the_state_of_the_server():
    env = shelf_env(Shelf())
    for seed in (0, 1):
        first = await env.reset(seed)
        assert TASKS[seed].data["word"] in first.text
        results = [await env.step(action) for action in await env.solution()]
        assert [(r.reward, r.terminated) for r in results] == [(0.0, False), (1.0, True)]
    await env.aclose()


async def test_the_agent_sees_neither_hidden_tools_nor_the_data_and_cannot_call_them():
    shelf = Shelf()
    env = shelf_env(shelf)
    await env.reset(0)
    assert [tool.name for tool in env.tools] == ["add_note", "read_notes"]
    await env.step(ToolCall(name="add_note", arguments={"text": "x"}))
    refused = await env.step(ToolCall(name="clear", arguments={}))
    assert refused.info == {"error": "unknown_tool"}
    assert shelf.notes == ["x"]
    await env.aclose()


async def test_malformed_calls_are_tool_errors_and_never_reach_the_server():
    shelf = Shelf()
    env = shelf_env(shelf)
    await env.reset(0)
    result = await env.step(ToolCall(name="add_note", arguments={"text": 3}))
    assert result.info == {"error": "wrong_type"}
    assert shelf.notes == []
    await env.aclose()


async def test_what_the_server_refuses_is_a_tool_error_and_the_episode_goes_on():
    env = shelf_env(Shelf())
    await env.reset(0)
    refused = await env.step(ToolCall(name="read_notes", arguments={"why": 1}))
    assert refused.observation.text.startswith("Error")
    assert not refused.terminated
    assert (await env.step(Reply(text="gave up"))).reward == 0.0
    await env.aclose()


@pytest.mark.parametrize("change", ["gone", "other"])
async def test_a_tool_that_changes_in_mid_episode_is_a_fault_and_no_score(change):
    shelf = Shelf()
    env = shelf_env(shelf)
    await env.reset(0)
    if change == "gone":
        del shelf.tools["add_note"]
    else:
        shelf.tools["add_note"] = {"type": "object", "properties": {"note": {"type": "string"}}}
    with pytest.raises(HostFault, match="changed its tool add_note"):
        await env.step(Reply(text="done"))
    await env.aclose()


async def test_a_tool_that_went_away_is_a_fault_when_it_is_called():
    shelf = Shelf()
    env = shelf_env(shelf)
    await env.reset(0)
    del shelf.tools["add_note"]
    with pytest.raises(HostFault):
        await env.step(ToolCall(name="add_note", arguments={"text": "hello"}))
    await env.aclose()


@pytest.mark.parametrize("score", [2.0, -0.1, float("nan"), "1", None])
async def test_a_score_that_is_none_is_the_environments_fault(score):
    env = shelf_env(Shelf(), checker=lambda play: score)
    await env.reset(0)
    with pytest.raises(EnvironmentFault, match="the checker returned"):
        await env.step(Reply(text="done"))
    await env.aclose()


async def test_a_checker_that_raises_is_the_environments_fault():
    env = shelf_env(Shelf(), checker=lambda play: 1 / 0)
    await env.reset(0)
    with pytest.raises(EnvironmentFault, match="ZeroDivisionError"):
        await env.step(Reply(text="done"))
    await env.aclose()


@pytest.mark.parametrize("tool", ["die", "hang", "babble"])
async def test_a_server_that_fails_in_a_play_makes_it_missing_not_lost(tool):
    env = McpEnv(brittle(), [McpTask(instruction="Go.")], lambda play: 1.0, seconds=5.0 if tool != "hang" else 0.7)
    policy = ScriptedPolicy.gold([ToolCall(name=tool, arguments={}), Reply(text="done")])
    trajectory = await play(env, policy, sampling=Sampling(), seed=0)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.INFRASTRUCTURE_FAULT, None)


async def test_a_command_is_started_afresh_for_each_episode():
    env = McpEnv(brittle(), [McpTask(instruction="Go.")], lambda play: float(len(play.calls) == 1))
    for _ in range(2):
        await env.reset(0)
        await env.step(ToolCall(name="fine", arguments={}))
        assert (await env.step(Reply(text=""))).reward == 1.0
    await env.aclose()


async def test_a_server_that_hangs_ends_with_the_plays_deadline():
    env = McpEnv(brittle(), [McpTask(instruction="Go.")], lambda play: 1.0)
    policy = ScriptedPolicy.gold([ToolCall(name="hang", arguments={})])
    started = time.monotonic()
    trajectory = await play(env, policy, sampling=Sampling(), seed=0, deadline=started + 4.0)
    assert trajectory.outcome is Outcome.INFRASTRUCTURE_FAULT
    assert time.monotonic() - started < 20.0


async def test_an_answer_too_long_to_read_is_shortened_and_says_so():
    shelf = Shelf()
    env = shelf_env(shelf)
    await env.reset(0)
    shelf.notes = ["x" * 50_000]
    text = (await env.step(ToolCall(name="read_notes", arguments={}))).observation.text
    assert text.endswith("[18000 more characters are not shown]")
    await env.aclose()
