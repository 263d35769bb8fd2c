"""ScriptedPolicy: gold, silent, random, files and functions, with and without tokens."""

from __future__ import annotations

import time

import pytest

from spade_agents.errors import ContextExhaustedError, InfrastructureError, PolicyError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.trajectory import Role, sample_from
from spade_environments import Reply, ToolCall, ToolSpec
from tests.agents.tiny import tokenizer

LOOK = ToolSpec(
    name="look",
    description="Look.",
    parameters={
        "type": "object",
        "properties": {
            "item": {"type": "string"},
            "count": {"type": "integer"},
            "kind": {"enum": ["a", "b"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "deep": {"type": "boolean"},
        },
        "required": ["item", "count", "kind", "tags", "note", "deep"],
    },
)
OPENING = Conversation(messages=(Message(role="user", content="find x42 or 17"),), tools=(LOOK,))
GOLD = (ToolCall(name="look", arguments={"item": "x"}), Reply(text="done"))


def renderer() -> HermesRenderer:
    return HermesRenderer(tokenizer(), style="compact")


async def turns(policy, count: int, seed: int = 0):
    conversation, completions = OPENING, []
    for number in range(count):
        completion = await policy.complete(conversation, Sampling(), seed=seed + number)
        completions.append(completion)
        said = Message(role="assistant", content=completion.text, calls=completion.calls)
        tokens = None if completion.token_ids is None else completion.prompt_ids + completion.token_ids
        conversation = conversation.then(said, tokens=tokens).then(Message(role="tool", content="seen"))
    return completions


@pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])
async def test_gold_plays_one_action_a_message_and_is_silent_afterwards(tokens):
    policy = ScriptedPolicy.gold(GOLD, renderer=renderer() if tokens else None)
    first, second, third = await turns(policy, 3)
    assert (first.calls[0].name, first.calls[0].arguments, first.finish) == ("look", {"item": "x"}, "calls")
    assert (second.text, second.calls, second.finish) == ("done", (), "stop")
    assert (third.text, third.calls) == ("", ())


async def test_gold_without_actions_asks_for_them():
    policy = ScriptedPolicy.gold()
    assert policy.needs_solution
    with pytest.raises(PolicyError, match="with_solution"):
        await policy.complete(OPENING, Sampling(), seed=0)
    assert (await turns(policy.with_solution(GOLD), 2))[1].text == "done"


async def test_random_follows_the_schema_and_its_seed_alone():
    policy = ScriptedPolicy.random()
    seen = [(await policy.complete(OPENING, Sampling(), seed=seed)) for seed in range(60)]
    again = [(await policy.complete(OPENING, Sampling(), seed=seed)) for seed in range(60)]
    assert seen == again
    calls = [call for completion in seen for call in completion.calls]
    assert 30 < len(calls) < 60
    for call in calls:
        assert isinstance(call.arguments["item"], str) and isinstance(call.arguments["count"], int)
        assert call.arguments["kind"] in ("a", "b") and isinstance(call.arguments["tags"], list)
        assert type(call.arguments["deep"]) is bool
    assert {call.arguments["item"] for call in calls} <= {"find", "x42", "or", "17"}


async def test_scripted_tokens_are_appended_and_train_as_one_sample():
    completions = await turns(ScriptedPolicy.gold(GOLD, renderer=renderer()), 3)
    sample = sample_from(completions, advantage=0.5, group="g", role=Role.AGENT)
    assert sum(sample.mask) == sum(len(completion.token_ids) for completion in completions)
    assert all(logprob < 0 for logprob, trained in zip(sample.logprobs, sample.mask, strict=True) if trained)
    assert completions == await turns(ScriptedPolicy.gold(GOLD, renderer=renderer()), 3)


async def test_a_function_may_write_a_broken_call():
    policy = ScriptedPolicy(lambda conversation, source: "hm\n<tool_call>\n{oops}\n</tool_call>", renderer=renderer())
    completion = await policy.complete(OPENING, Sampling(), seed=0)
    assert (completion.text, completion.finish) == ("hm", "calls")
    assert [broken.kind for broken in completion.broken] == ["not_json"]


async def test_max_tokens_cuts_a_scripted_message():
    policy = ScriptedPolicy.gold(GOLD, renderer=renderer())
    completion = await policy.complete(OPENING, Sampling(max_tokens=5), seed=0)
    assert completion.finish == "length" and len(completion.token_ids) == 5
    assert [broken.kind for broken in completion.broken] == ["truncated"]


async def test_a_prompt_past_the_context_is_refused():
    policy = ScriptedPolicy(lambda conversation, source: "", renderer=renderer(), context_length=20)
    with pytest.raises(ContextExhaustedError):
        await policy.complete(OPENING, Sampling(), seed=0)


async def test_a_passed_deadline_is_an_infrastructure_error():
    with pytest.raises(InfrastructureError):
        await ScriptedPolicy.silent().complete(OPENING, Sampling(), seed=0, deadline=time.monotonic() - 1)


async def test_weights_only_carry_a_version():
    policy = ScriptedPolicy.silent()
    policy.load_weights({}, 3)
    assert (await policy.complete(OPENING, Sampling(), seed=0)).weight_version == 3


async def test_a_file_plays_line_by_line(tmp_path):
    path = tmp_path / "play.jsonl"
    path.write_text('{"calls": [{"name": "look", "arguments": {"item": "y"}}]}\n\n{"text": "bye"}\n')
    first, second, third = await turns(ScriptedPolicy.from_file(path), 3)
    assert first.calls[0].arguments == {"item": "y"}
    assert (second.text, third.text) == ("bye", "")


@pytest.mark.parametrize("line", ["x", "[]", '{"calls": [{"name": "a"}]}', '{"calls": 3}'])
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "play.jsonl"
    path.write_text('{"text": "ok"}\n' + line + "\n")
    with pytest.raises(UsageError, match=r"play\.jsonl:2"):
        ScriptedPolicy.from_file(path)
