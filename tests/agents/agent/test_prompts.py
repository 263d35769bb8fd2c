"""The agent's role prompts, word for word: a change here changes what every model is asked."""

from __future__ import annotations

import pytest

from spade_agents.agent.prompts import opening_messages
from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rollout import play
from spade_environments import Observation, ToolSpec
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox

FIRST = Observation(role="user", text="Find the key.")


def tool(name: str, *arguments: str) -> ToolSpec:
    properties = {argument: {"type": "string"} for argument in arguments}
    return ToolSpec(name=name, description="", parameters={"type": "object", "properties": properties})


GAME = (
    "You act in an environment, turn by turn, by calling its one function. Read each observation before you act. A "
    "plain message does nothing and costs a turn: every move is a call."
)
TOOL_USE = (
    "You act in an environment through function calls. Read the request, call the tools you need one step at a time, "
    "and read each result before you go on. When the request is carried out, answer with a plain message; it hands the "
    "turn back to the user. If something you need is missing, ask for it. If no tool fits, say so."
)


@pytest.mark.parametrize(
    ("tools", "style", "hint", "system", "user"),
    [
        ((tool("act", "action"),), "full", None, GAME, "Find the key."),
        ((tool("answer", "answer"),), "full", None, GAME, "Find the key."),
        ((tool("look", "place"), tool("take", "item")), "full", None, TOOL_USE, "Find the key."),
        ((tool("look", "place"),), "full", None, TOOL_USE, "Find the key."),
        ((tool("look", "place"),), "full", "Look up.", TOOL_USE, "Find the key.\nhint: Look up."),
        ((tool("act", "action"),), "full", "Look up.", GAME, "Find the key.\nhint: Look up."),
        ((tool("act", "action"),), "compact", None, "act", "Find the key."),
        ((tool("look", "place"),), "compact", "Look up.", "act", "Find the key.\nhint: Look up."),
    ],
)
def test_the_opening_word_for_word(tools, style, hint, system, user):
    messages = opening_messages(FIRST, hint, style=style, tools=tools)
    assert [(message.role, message.content) for message in messages] == [("system", system), ("user", user)]


@pytest.mark.parametrize(("name", "system"), [("signal_box", GAME), ("ticket_desk", TOOL_USE)])
async def test_a_play_is_opened_as_what_it_is(name, system):
    async with open_sandbox() as sandbox:
        env = await sandbox.open(find(name))
        trajectory = await play(env, ScriptedPolicy.silent(), sampling=Sampling(), seed=1)
    assert trajectory.opening[0].content == system
