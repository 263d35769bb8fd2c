"""TokenPolicy over a stub engine: trained on exactly the ids that it emitted, whatever their text encodes to."""

from __future__ import annotations

import pytest

from spade_agents.errors import PolicyError
from spade_agents.messages import Conversation, Message
from spade_agents.policy import Sampling
from spade_agents.policy.token_policy import Generated, TokenPolicy
from spade_agents.rendering import HermesRenderer, open_renderer
from spade_agents.rollout import play
from spade_agents.trajectory import Outcome
from tests.agents.rendering.models import model as templated
from tests.agents.rollout.worlds import Counter
from tests.agents.tiny import tokenizer


class Stub:
    """An engine that answers with given ids, one answer a request; its log-probabilities number the tokens."""

    def __init__(self, *answers: list[int]) -> None:
        self.answers = answers
        self.prompts: list[tuple[int, ...]] = []
        self.given = 0

    async def generate(self, prompt_ids, sampling, *, stop, seed, deadline=None, keep=False):
        self.prompts.append(prompt_ids)
        ids = tuple(self.answers[len(self.prompts) - 1])
        logprobs = tuple(-float(self.given + n + 1) / 100 for n in range(len(ids)))
        self.given += len(ids)
        return Generated(ids, logprobs, ids[-1] not in stop)


def spelled(small, text: str) -> list[int]:
    """Tokens of one byte each, which no tokenizer would choose."""
    from tokenizers import pre_tokenizers

    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return [small.token_to_id(letter) for letter in split[0][0]] if text else []


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "qwen3_5_think", "smollm2", "llama3_1"])
async def test_an_engine_s_own_tokens_are_trained_on_and_never_their_text_encoded_anew(name):
    small, template = templated(name)
    renderer, _ = open_renderer(small, template)
    call = {
        "llama3_1": '{"name": "push", "parameters": {"to": "act"}}',
        "qwen3_5_think": "<function=push>\n<parameter=to>\nact\n</parameter>\n</function>",
    }.get(name, '{"name": "push", "arguments": {"to": "act"}}')
    tags = [small.token_to_id(tag) for tag in ("<tool_call>", "</tool_call>")]
    thought = small.token_to_id("</think>")
    before = [*spelled(small, "act on\n"), thought] if name.startswith("qwen3") else []
    if name == "qwen3":
        before = [small.token_to_id("<think>"), *before]
    if name == "llama3_1":
        first = spelled(small, call)
    elif name == "smollm2":
        first = spelled(small, f"<tool_call>\n{call}\n</tool_call>")
    else:
        first = [*before, tags[0], *spelled(small, f"\n{call}\n"), tags[1]]
    second = [*before, *spelled(small, "act on")]
    for ids in (first, second):
        plain = [n for n in ids if n not in (*tags, thought, small.token_to_id("<think>"))]
        assert small.encode(small.decode(plain)) != plain
    answers = [[*ids, renderer.end_id] for ids in (first, second)]
    engine = Stub(*answers, [*spelled(small, "1"), renderer.end_id])
    policy = TokenPolicy(engine, renderer, name="stub", context_length=100_000)
    trajectory = await play(Counter(max_turns=3), policy, sampling=Sampling(), seed=1)
    assert [turn.errors for turn in trajectory.turns] == [(), (), ()]
    assert trajectory.turns[0].completion.calls[0].arguments == {"to": "act"}
    assert trajectory.outcome is Outcome.SCORED
    sample = trajectory.training_sample(advantage=1.0, group="g")
    trained = [token for token, chosen in zip(sample.token_ids, sample.mask, strict=True) if chosen]
    assert trained == [token for answer in engine.answers for token in answer]
    given = [logprob for logprob, chosen in zip(sample.logprobs, sample.mask, strict=True) if chosen]
    assert given == [-float(n + 1) / 100 for n in range(len(trained))]
    assert sample.token_ids[: len(engine.prompts[2])] == engine.prompts[2]


async def test_an_engine_that_miscounts_its_log_probabilities_is_refused():
    class Short(Stub):
        async def generate(self, *arguments, **options):
            found = await super().generate(*arguments, **options)
            return found._replace(logprobs=found.logprobs[1:])

    renderer = HermesRenderer(tokenizer())
    policy = TokenPolicy(Short([5, 6, renderer.end_id]), renderer, name="short", context_length=1000)
    with pytest.raises(PolicyError, match="2 log-probabilities for 3 tokens"):
        await policy.complete(Conversation(messages=(Message(role="user", content="a"),)), Sampling(), seed=0)
