"""One play: turns, malformed calls, every outcome, the deadline, and the tokens that are kept."""

from __future__ import annotations

import asyncio
import time

import pytest

from spade_agents.errors import InfrastructureError, PolicyError
from spade_agents.messages import Message
from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.rollout import play
from spade_agents.trajectory import Outcome
from spade_environments import Reply, ToolCall
from tests.agents.rollout.worlds import ENVIRONMENT_FAULT, HOST_FAULT, PULL, Counter
from tests.agents.tiny import tokenizer

SAMPLING = Sampling()


def says(*texts: str, **options) -> ScriptedPolicy:
    """A policy that says these raw texts in turn, the last one for ever."""

    def respond(conversation, source):
        spoken = sum(message.role == "assistant" for message in conversation.messages)
        return texts[min(spoken, len(texts) - 1)]

    return ScriptedPolicy(respond, **options)


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


async def test_the_return_is_the_final_reward_and_the_environment_is_closed():
    env = Counter()
    trajectory = await play(env, says(call("push", '{"to": "1"}'), "", "1"), sampling=SAMPLING, seed=3, style="compact")
    assert (trajectory.outcome, trajectory.reward, trajectory.fault) == (Outcome.SCORED, 1.0, None)
    assert env.actions == [ToolCall(name="push", arguments={"to": "1"}, id="call_0"), Reply(text=""), Reply(text="1")]
    assert env.closed == 1
    assert [len(turn.observations) for turn in trajectory.turns] == [1, 1, 1]
    assert trajectory.turns[0].observations[0].call_id == "call_0"


async def test_a_lost_episode_is_scored_zero():
    trajectory = await play(Counter(), says("", "wrong"), sampling=SAMPLING, seed=3)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.SCORED, 0.0)


async def test_several_calls_of_a_message_run_in_order_and_text_beside_them_is_no_reply():
    env = Counter(max_turns=1)
    text = "first\n" + call("push", '{"to": "a"}') + call("push", '{"to": "b"}')
    trajectory = await play(env, says(text), sampling=SAMPLING, seed=0)
    assert [action.arguments["to"] for action in env.actions] == ["a", "b"]
    assert [o.text for o in trajectory.turns[0].observations] == ["pushed to a", "pushed to b"]


async def test_calls_after_the_end_are_told_so_and_do_not_run():
    env = Counter()
    trajectory = await play(env, says(call("win") + call("push")), sampling=SAMPLING, seed=0)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.SCORED, 0.5)
    assert len(env.actions) == 1
    assert "over" in trajectory.turns[0].observations[1].text


async def test_malformed_calls_are_tool_errors_counted_by_kind_and_the_episode_goes_on():
    broken = ["<tool_call>\n{oops}\n</tool_call>", call("push", '"{}"'), call("fly"), call("push") + "<tool_call>3"]
    env = Counter(max_turns=6)
    trajectory = await play(env, says(*broken, "", "0"), sampling=SAMPLING, seed=0)
    assert trajectory.reward == 1.0
    assert trajectory.counters == {"not_json": 1, "double_encoded": 1, "unknown_tool": 1, "bad_call": 1}
    assert [turn.errors for turn in trajectory.turns] == [
        ("not_json",),
        ("double_encoded",),
        ("unknown_tool",),
        ("bad_call",),
        (),
        (),
    ]
    assert trajectory.turns[0].observations[0].text.startswith("Error: the call is not JSON")
    assert trajectory.turns[3].observations[0].text == "pushed to None"


async def test_a_cut_message_never_yields_and_a_cut_call_is_told():
    renderer = HermesRenderer(tokenizer(), style="compact")
    env = Counter(max_turns=2)
    policy = says("a long message that is cut", call("push"), renderer=renderer)
    trajectory = await play(env, policy, sampling=Sampling(max_tokens=6), seed=0)
    assert env.actions == []
    assert trajectory.counters == {"cut_text": 1, "truncated": 1, "out_of_turns": 1}
    assert [turn.observations[0].role for turn in trajectory.turns] == ["user", "tool"]


async def test_used_up_turns_are_an_agent_error_of_return_zero():
    env = Counter(max_turns=3)
    trajectory = await play(env, says(call("push")), sampling=SAMPLING, seed=0)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.AGENT_ERROR, 0.0)
    assert len(trajectory.turns) == 3 and trajectory.counters["out_of_turns"] == 1


async def test_an_environment_that_truncates_is_an_agent_error():
    trajectory = await play(Counter(), says(call("cut") + call("win")), sampling=SAMPLING, seed=0)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.AGENT_ERROR, 0.0)
    assert len(trajectory.turns) == 1


async def test_a_used_up_context_is_an_agent_error_and_keeps_its_turns():
    policy = says(call("push"), renderer=HermesRenderer(tokenizer(), style="compact"), context_length=700)
    trajectory = await play(Counter(max_turns=20), policy, sampling=SAMPLING, seed=0, style="compact")
    assert (trajectory.outcome, trajectory.reward) == (Outcome.AGENT_ERROR, 0.0)
    assert trajectory.counters["out_of_context"] == 1
    assert 1 <= len(trajectory.turns) < 20


@pytest.mark.parametrize("moment", ["reset", "step"])
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (ENVIRONMENT_FAULT, Outcome.ENVIRONMENT_FAULT),
        (HOST_FAULT, Outcome.INFRASTRUCTURE_FAULT),
        (InfrastructureError("server gone"), Outcome.INFRASTRUCTURE_FAULT),
        (TimeoutError("socket"), Outcome.INFRASTRUCTURE_FAULT),
    ],
    ids=["environment", "host", "infrastructure", "timeout"],
)
async def test_a_fault_is_missing_and_never_a_zero(moment, fault, outcome):
    env = Counter(**{moment: fault})
    trajectory = await play(env, says(call("push")), sampling=SAMPLING, seed=0)
    assert (trajectory.outcome, trajectory.reward) == (outcome, None)
    assert trajectory.fault
    assert env.closed == 1
    assert len(trajectory.turns) == (moment == "step")


async def test_a_failing_policy_is_an_infrastructure_fault():
    async def complete(*args, **options):
        raise InfrastructureError("server gone")

    policy = says("")
    policy.complete = complete
    trajectory = await play(Counter(), policy, sampling=SAMPLING, seed=0)
    assert (trajectory.outcome, trajectory.fault) == (Outcome.INFRASTRUCTURE_FAULT, "server gone")


async def test_an_error_that_is_no_outcome_passes_and_the_environment_is_still_closed():
    env = Counter()
    with pytest.raises(PolicyError):
        await play(env, ScriptedPolicy.gold(), sampling=SAMPLING, seed=0)
    assert env.closed == 1


@pytest.mark.parametrize("moment", ["reset", "step"])
async def test_the_deadline_ends_a_hanging_play_as_an_infrastructure_fault(moment):
    env = Counter(**{moment: 3600.0})
    trajectory = await play(env, says(call("push")), sampling=SAMPLING, seed=0, deadline=time.monotonic() + 0.05)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.INFRASTRUCTURE_FAULT, None)
    assert "deadline" in trajectory.fault
    assert env.closed == 1


async def test_a_teardown_that_hangs_is_cut_off_and_told(monkeypatch):
    monkeypatch.setattr("spade_agents.rollout.rollout.TEARDOWN_SECONDS", 0.05)
    env = Counter(close=3600.0)
    trajectory = await play(env, says(call("win")), sampling=SAMPLING, seed=0, deadline=time.monotonic() + 0.05)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.INFRASTRUCTURE_FAULT, None)
    assert trajectory.counters["teardown_fault"] == 1


async def test_a_fault_at_teardown_does_not_take_back_a_score():
    trajectory = await play(Counter(close=HOST_FAULT), says(call("win")), sampling=SAMPLING, seed=0)
    assert (trajectory.outcome, trajectory.reward) == (Outcome.SCORED, 0.5)
    assert trajectory.counters == {"teardown_fault": 1}


async def test_a_cancelled_play_closes_its_environment():
    env = Counter(step=3600.0)
    task = asyncio.create_task(play(env, says(call("push")), sampling=SAMPLING, seed=0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert env.seed == 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert env.closed == 1


async def test_the_hint_stands_once_below_the_first_observation():
    seen = []

    def respond(conversation, source):
        seen.append(conversation)
        return "0"

    trajectory = await play(Counter(), ScriptedPolicy(respond), sampling=SAMPLING, seed=0, hint="push hard")
    assert trajectory.hinted
    assert trajectory.opening[-1].content == "push to 0\nhint: push hard"
    assert sum("push hard" in message.content for message in seen[-1].messages) == 1


async def test_unlocked_tools_are_announced_and_the_tool_block_stays_as_it_was():
    seen = []

    def respond(conversation, source):
        seen.append(conversation)
        return "0"

    await play(Counter(), ScriptedPolicy(respond), sampling=SAMPLING, seed=0, style="compact")
    first, second = seen
    assert first.tools == second.tools
    assert second.messages[-1] == Message(
        role="user",
        content='now pull\n<tools>\n{"name": "pull", "description": "Pull.", '
        '"parameters": {"type": "object", "properties": {}}}\n</tools>',
    )
    assert PULL.name not in [tool.name for tool in second.tools]


@pytest.mark.parametrize(("renderer", "system"), [("compact", "act"), (None, "You act in")])
async def test_prompts_are_in_the_style_of_the_policy_s_renderer(renderer, system):
    policy = says("0", renderer=renderer and HermesRenderer(tokenizer(), style=renderer))
    trajectory = await play(Counter(), policy, sampling=SAMPLING, seed=0)
    assert trajectory.opening[0].content.startswith(system)


async def test_completions_of_a_play_have_seeds_of_their_own():
    seeds = []

    class Noting(ScriptedPolicy):
        async def complete(self, conversation, sampling, *, seed, deadline=None):
            seeds.append(seed)
            return await super().complete(conversation, sampling, seed=seed, deadline=deadline)

    policy = Noting(lambda conversation, source: "0")
    for draw, hint in ((0, None), (1, None), (0, "hint"), (0, None)):
        await play(Counter(), policy, sampling=SAMPLING, seed=4, draw=draw, hint=hint, environment_id="e")
    assert len(set(seeds[:6])) == 6
    assert seeds[6:] == seeds[:2]


async def test_the_tokens_of_a_play_are_one_sample_of_what_was_sampled():
    renderer = HermesRenderer(tokenizer(), style="compact")
    policy = says(call("push", '{"to": "0"}'), "", "0", renderer=renderer)
    trajectory = await play(Counter(), policy, sampling=SAMPLING, seed=0, style="compact")
    sample = trajectory.training_sample(advantage=1.0, group="g")
    text = renderer.tokenizer.decode(sample.token_ids)
    assert text.endswith("now pull\n" + text.split("now pull\n")[1]) and text.endswith("assistant\n0<|im_end|>")
    written = [token for token, trained in zip(sample.token_ids, sample.mask, strict=True) if trained]
    assert renderer.tokenizer.decode(written) == (
        call("push", '{"to": "0"}') + "<|im_end|>" + "<|im_end|>" + "0<|im_end|>"
    )
