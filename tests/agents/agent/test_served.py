"""A served episode without a task of the user's own: token for token the play that training makes of it."""

from __future__ import annotations

import shlex
import sys

import pytest

from spade_agents.agent.sdk_run import run_agent
from spade_agents.errors import UsageError
from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.rollout import play
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox
from tests.agents.tiny import tokenizer

SPADE = (sys.executable, "-c", "from spade_agents.cli import main; main()")
SEED = 3


class Noting(ScriptedPolicy):
    """Keeps what it answered, with the prompts' tokens."""

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        completion = await super().complete(conversation, sampling, seed=seed, deadline=deadline)
        self.answered.append(completion)
        return completion


def noting(policy: type, *arguments, style: str = "full"):
    made = policy(*arguments, renderer=HermesRenderer(tokenizer(), style=style))
    made.answered = []
    return made


def serve(name: str) -> str:
    return shlex.join([*SPADE, "serve", name, "--seed", str(SEED)])


async def gold_of(name: str):
    async with open_sandbox() as sandbox, await sandbox.open(find(name)) as env:
        await env.reset(SEED)
        return await env.solution()


async def played(name: str, policy) -> str | None:
    """The last thing that the environment says in a play."""
    async with open_sandbox() as sandbox:
        trajectory = await play(await sandbox.open(find(name)), policy, sampling=Sampling(), seed=SEED)
    return trajectory.turns[-1].observations[-1].text


@pytest.mark.parametrize(
    ("name", "style"), [("bell_towers", "compact"), ("ticket_desk", "full"), ("release_board", "compact")]
)
async def test_prompts_and_end_are_those_of_a_play_token_for_token(name, style):
    """One turn; goals with replies; a goal that unlocks tools."""
    actions = await gold_of(name)
    training, running = (noting(Noting.gold, actions, style=style) for _ in range(2))
    last, said = await played(name, training), []
    done = await run_agent(running, None, [serve(name)], say=lambda who, what: said.append((who, what)))
    assert [c.prompt_ids for c in running.answered] == [c.prompt_ids for c in training.answered]
    assert done.answer == last == said[-1][1] and done.requests == len(actions)


async def test_a_message_in_a_game_is_answered_by_it_as_in_a_play():
    training, running = (noting(Noting.silent) for _ in range(2))
    assert (await run_agent(running, None, [serve("bell_towers")])).answer == await played("bell_towers", training)
    assert [c.prompt_ids for c in running.answered] == [c.prompt_ids for c in training.answered]


async def test_turns_that_are_used_up_between_two_instructions_are_no_answer():
    said = []
    done = await run_agent(
        noting(Noting.silent), None, [serve("die_walk")], max_turns=2, say=lambda who, what: said.append((who, what))
    )
    assert done.answer is None and said[-1] == ("error", "2 turns used up")


@pytest.mark.parametrize(("servers", "told"), [((), "0 of the MCP servers"), (("bell_towers",) * 2, "2 of the")])
async def test_no_task_from_anywhere_or_from_two_is_told(servers, told):
    with pytest.raises(UsageError, match=told):
        await run_agent(noting(Noting.silent), None, [serve(name) for name in servers])
