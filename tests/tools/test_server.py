"""An episode over MCP, with the SDK's own client in memory."""

import random
from contextlib import asynccontextmanager

from mcp import Client

from spade_environments import EnvironmentSpec, Observation, Reply, Skill, StepResult, ToolSpec
from spade_tools import EpisodeServer, Phase, ServedEpisode

SPEC = EnvironmentSpec(name="buttons", source="", skill=Skill.TOOL_SELECTION)

PRESS = ToolSpec(
    name="press",
    description="Press a button.",
    parameters={"type": "object", "properties": {"button": {"type": "integer"}}, "required": ["button"]},
)


class Buttons:
    """An Env in memory: press the secret button, then say done."""

    tools = (PRESS,)
    max_turns = 4
    closed = False

    async def reset(self, seed):
        self.secret, self.pressed = random.Random(seed).randrange(1000), None
        return Observation(role="user", text="Press the right button.")

    async def step(self, action):
        if isinstance(action, Reply):
            won = self.pressed == self.secret
            return StepResult(
                observation=Observation(role="user", text="Thank you."),
                reward=float(won),
                terminated=True,
                truncated=False,
            )
        self.pressed = action.arguments["button"]
        observation = Observation(role="tool", text="pressed")
        return StepResult(observation=observation, reward=0.0, terminated=False, truncated=False, info={"seed": 7})

    async def aclose(self):
        self.closed = True


@asynccontextmanager
async def episode():
    served = EpisodeServer(ServedEpisode(Buttons(), SPEC, seed=7, takes_replies=True))
    async with Client(served.server) as client:
        yield served.episode, client
    await served.aclose()


def said(result):
    return result.structured_content["observation"], result.structured_content["over"], result.is_error


async def test_the_gold_actions_win_and_the_client_never_sees_the_reward():
    async with episode() as (served, client):
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["press", "get_task", "finish_turn"]
        secret = random.Random(7).randrange(1000)
        assert said(await client.call_tool("get_task", {})) == ("Press the right button.", False, False)
        assert said(await client.call_tool("press", {"button": secret})) == ("pressed", False, False)
        last = await client.call_tool("finish_turn", {"message": "done"})
        assert said(last) == ("Thank you.", True, False)
        assert served.reward == 1.0
        assert "reward" not in last.model_dump_json()


async def test_calls_after_the_end_are_told_so():
    async with episode() as (served, client):
        await client.call_tool("finish_turn", {"message": ""})
        text, over, is_error = said(await client.call_tool("press", {"button": 1}))
        assert (over, is_error, served.reward) == (True, True, 0.0)
        assert "over" in text


async def test_each_call_counts_as_a_turn_and_the_last_one_truncates():
    async with episode() as (served, client):
        for _ in range(4):
            await client.call_tool("press", {"button": 1})
        assert (served.phase, served.reward) == (Phase.OVER, 0.0)


async def test_finish_turn_with_other_arguments_is_a_tool_error_and_costs_nothing():
    async with episode() as (served, client):
        _, over, is_error = said(await client.call_tool("finish_turn", {"message": 3}))
        assert (over, is_error, served.phase) == (False, True, Phase.RUNNING)
