"""Sixty malformed calls, ten of each kind, through the loop in a real environment: counted, answered, never paid."""

from __future__ import annotations

from collections import Counter

import pytest

from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rendering import HermesRenderer, Llama3Renderer
from spade_agents.rollout import play
from spade_agents.rollout.outcomes import CallOutcome, call_outcomes, outcome_of
from spade_agents.trajectory import Outcome
from spade_environments import Reply
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox
from spade_environments.validation import CallErrorKind
from tests.agents.rendering.models import LLAMA, small_tokenizer
from tests.agents.rollout.worlds import Counter as World
from tests.agents.tiny import tokenizer

DESK = "ticket_desk"


def tagged(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def call(arguments: str, name: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


def malformed(tool: str, argument: str) -> dict[CallOutcome, list[str]]:
    """Ten raw messages of each kind; `tool` has one required argument of type string."""
    well = call(f'{{"{argument}": "a"}}', tool)
    return {
        CallOutcome.NOT_JSON: [
            tagged(body)
            for body in ("", "{", "oops", well[:-1], well.replace('"', "'"), well + "}", f"```{well}```", "NaN",
                         well.replace('"a"', "NaN"), f"{tool}(a)")
        ],
        CallOutcome.UNKNOWN_TOOL: [
            tagged(call(arguments, name))
            for name in ("fly", "x", "reset", "get_task", tool.upper())
            for arguments in ("{}", '{"a": 1}')
        ],
        CallOutcome.BAD_ARGUMENTS: [
            tagged(body)
            for body in (
                call("{}", tool), call(f'{{"{argument}": 3}}', tool), call(f'{{"{argument}": null}}', tool),
                call(f'{{"{argument}": ["a"]}}', tool), call(f'{{"{argument}": "a", "more": 1}}', tool),
                call("[]", tool), call("null", tool), call('"a"', tool), f'{{"name": "{tool}"}}',
                call(f'{{"{argument}": "a", "{argument}": "b"}}', tool),
            )
        ],
        CallOutcome.DOUBLE_ENCODED: [
            tagged(call(f'"{{\\"{argument}\\": \\"{value}\\"}}"', tool)) for value in "abcdefghi"
        ] + [tagged(call('"{}"', tool))],
        CallOutcome.TRUNCATED: [tagged(call(f'{{"{argument}": "{"a" * 4000}{n}"}}', tool)) for n in range(10)],
        CallOutcome.SEVERAL_CALLS: [tagged(separator.join([well] * count))
                                    for separator in ("", "\n", " ", ";", ", ") for count in (2, 3)],
    }  # fmt: skip


def saying(texts: list[str], renderer) -> ScriptedPolicy:
    def respond(conversation, source):
        spoken = sum(message.role == "assistant" for message in conversation.messages)
        return texts[min(spoken, len(texts) - 1)]

    return ScriptedPolicy(respond, renderer=renderer, context_length=10**6)


async def test_sixty_malformed_calls_are_answered_counted_by_kind_and_never_paid():
    renderer = HermesRenderer(tokenizer(), style="compact")
    plays, wanted = [], Counter()
    async with open_sandbox() as sandbox:
        spec = find(DESK)
        async with await sandbox.open(spec) as env:
            tool = next(t for t in env.tools if _one_text(t.parameters))
        for kind, texts in malformed(tool.name, tool.parameters["required"][0]).items():
            env = await sandbox.open(spec)
            trajectory = await play(
                env, saying(texts, renderer), sampling=Sampling(max_tokens=1000), seed=3, environment_id=spec.id
            )
            assert len(texts) == 10
            said = trajectory.turns[:10]
            assert all(len(turn.errors) == 1 and outcome_of(turn.errors[0]) is kind for turn in said), kind
            assert all(turn.observations[0].text.startswith("Error") for turn in said), kind
            plays.append(trajectory)
            wanted[kind] += len(trajectory.turns)
    assert [(t.outcome, t.reward) for t in plays] == [(Outcome.AGENT_ERROR, 0.0)] * 6
    assert call_outcomes(plays) == wanted and all(count >= 10 for count in wanted.values())
    assert set(wanted) == set(CallOutcome) - {CallOutcome.OK}


def _one_text(schema) -> bool:
    required = schema.get("required", [])
    return len(required) == 1 and schema["properties"][required[0]] == {"type": "string"}


async def test_calls_that_went_well_are_counted_and_those_after_the_end_are_not():
    good = tagged(call('{"to": "a"}', "push"))
    win = tagged(call("{}", "win"))
    trajectory = await play(World(), saying([good + good, tagged("{"), win + win], None), sampling=Sampling(), seed=0)
    assert call_outcomes([trajectory]) == {CallOutcome.OK: 3, CallOutcome.NOT_JSON: 1}


async def test_a_reply_cut_by_length_is_no_parse_error_and_does_not_yield():
    env = World(max_turns=2)
    renderer = HermesRenderer(tokenizer(), style="compact")
    trajectory = await play(env, saying(["a long reply"], renderer), sampling=Sampling(max_tokens=4), seed=0)
    assert call_outcomes([trajectory]) == {}
    assert not any(isinstance(action, Reply) for action in env.actions)


async def test_several_calls_where_the_template_has_one_are_an_error():
    renderer = Llama3Renderer(small_tokenizer(LLAMA, ()))
    one = '{"name": "push", "parameters": {"to": "a"}}'
    trajectory = await play(
        World(max_turns=3), saying([one, f"{one}; {one}", one], renderer), sampling=Sampling(), seed=0
    )
    assert call_outcomes([trajectory]) == {CallOutcome.OK: 2, CallOutcome.SEVERAL_CALLS: 1}


@pytest.mark.parametrize(
    "kind", [*CallErrorKind, "bad_call", "not_json", "truncated", "double_encoded", "several_calls"]
)
def test_every_kind_of_error_has_an_outcome(kind):
    assert outcome_of(kind) in set(CallOutcome) - {CallOutcome.OK}


def test_other_counters_are_no_calls():
    assert [outcome_of(kind) for kind in ("cut_text", "out_of_turns", "retries", "reply")] == [None] * 4
