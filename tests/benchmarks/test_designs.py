"""Designs that benchmarks draw, and what they make of answers that go round in circles."""

from __future__ import annotations

import json
from itertools import cycle, islice

from designer import Unlooped, is_loop
from designs import diversity_of, drawn_designs

from spade_agents.designer.requests import DesignRequest
from spade_agents.policy import Sampling
from spade_agents.policy.token_policy import Generated
from spade_agents.selfplay import RunSettings
from spade_environments import Skill
from spade_environments.registry import catalogue


async def test_each_request_is_asked_once_and_one_without_a_program_is_none(tmp_path):
    script = tmp_path / "script.jsonl"
    requests = [DesignRequest(skill=Skill.DATA_RETRIEVAL, document=f"text {number}") for number in range(3)]
    for text, wanted in (("```python\nx = 1\n```", "x = 1\n"), ("no program", None)):
        script.write_text(json.dumps({"text": text}) + "\n")
        assert await drawn_designs(f"scripted:{script}", requests, RunSettings(), purpose="test") == [wanted] * 3


def test_what_is_no_program_counts_as_none():
    sources = [spec.source for spec in catalogue()[:3]]
    assert diversity_of([*sources, "class (", "\0"]) == diversity_of(sources)
    assert diversity_of([]).designs == 0


def test_a_loop_is_one_passage_many_times_over_and_a_list_is_none():
    assert is_loop([*range(50), *islice(cycle(range(7)), 110)])
    assert is_loop([*range(50), *[3] * 97])
    assert not is_loop([*range(50), *islice(cycle(range(7)), 60)])
    assert not is_loop([*range(50), *islice(cycle(range(150)), 400)])
    assert not is_loop([number // 2 if number % 2 else 9 for number in range(300)])


class Tokens:
    """An engine whose answers are the beginning of `tokens`, ended by a stop token or cut."""

    def __init__(self, tokens, stop=-1):
        self.tokens, self.stop, self.asked = list(tokens), stop, []

    async def generate(self, prompt_ids, sampling, *, seed, **options):
        self.asked.append((len(prompt_ids), sampling.max_tokens, seed))
        rest = self.tokens[len(prompt_ids) - 5 :][: sampling.max_tokens]
        return Generated(tuple(rest), (0.0,) * len(rest), self.stop not in rest)


async def answered(tokens, *, limit=1000, context=2000, stop=-1):
    engine = Tokens(tokens, stop)
    found = await Unlooped(engine=engine, context=context, part=100).generate(
        (0,) * 5, Sampling(max_tokens=limit), seed=1, stop=frozenset()
    )
    return found, engine


async def test_an_answer_in_parts_is_the_whole_answer():
    found, engine = await answered([*range(249), -1], stop=-1)
    assert (found.token_ids, found.truncated) == ((*range(249), -1), False)
    assert [asked[:2] for asked in engine.asked] == [(5, 100), (105, 100), (205, 100)]
    assert len({seed for _, _, seed in engine.asked}) == 3


async def test_limit_and_context_cut_it_and_a_loop_ends_it():
    assert len((await answered(range(5000), limit=250))[0].token_ids) == 250
    assert len((await answered(range(5000), context=255))[0].token_ids) == 250
    found, engine = await answered([*range(20), *[7] * 5000])
    assert (len(found.token_ids), found.truncated, len(engine.asked)) == (200, True, 2)
