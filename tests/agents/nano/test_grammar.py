"""The grammar writes programs that hold: gold wins, silence loses, structures differ, words come from the document."""

from __future__ import annotations

import ast
import random

import pytest

from spade_agents.nano.examples import is_held_out, warm_program
from spade_agents.nano.grammar.compose import KNOWN_SHAPES, UNSEEN_SHAPES, compose
from spade_agents.nano.grammar.documents import write_document
from spade_agents.nano.grammar.words import DOMAINS, corpus_only, held_out, warm
from spade_environments import TOOL_SKILLS, Skill
from spade_environments.inside.episode import Episode


def play(source: str, seed: int, actions: list[dict] | None = None) -> float:
    episode = Episode(source)
    episode.reset(seed)
    for action in episode.solution() if actions is None else actions:
        result = episode.step(action.get("name"), action.get("arguments"), action.get("text"))
        if result["terminated"]:
            return result["reward"]
    return 0.0


@pytest.fixture(scope="module")
def programs():
    rng = random.Random(7)
    return [warm_program(rng) for _ in range(120)]


def test_gold_wins_on_seeds_that_the_grammar_did_not_try(programs):
    assert all(play(p.program.source, seed) == 1.0 for p in programs for seed in (11, 12, 13))


def test_a_silent_agent_never_wins(programs):
    assert all(play(p.program.source, 3, [{"text": ""}] * 9) == 0.0 for p in programs)


def test_an_agent_that_says_done_at_once_never_wins(programs):
    assert all(play(p.program.source, 3, [{"text": "done"}] * 9) == 0.0 for p in programs)


def test_seeds_give_different_instances(programs):
    def told(source: str, seed: int) -> str:
        episode = Episode(source)
        return episode.reset(seed)["observation"] + repr(episode.solution())

    assert all(len({told(p.program.source, seed) for seed in range(6)}) > 1 for p in programs)


def test_structures_are_almost_all_distinct_and_labels_are_many(programs):
    assert len({p.fingerprint for p in programs}) > 0.9 * len(programs)
    assert len({p.program.label for p in programs}) > 0.6 * len(programs)


def test_all_five_goal_kinds_and_all_rules_occur():
    rng = random.Random(3)
    programs = [warm_program(rng).program for _ in range(300)]
    assert {goal.kind for p in programs for goal in p.goals} == {"state", "called", "replied", "asked", "declined"}
    assert {p.rule for p in programs} == {"none", "ready", "unlock", "code", "seen"}
    assert {len(p.tools) for p in programs} == {2, 3, 4}


def test_identifiers_come_from_the_document(programs):
    for warmup in programs:
        words = warmup.document.words
        assert words.thing in warmup.document.text
        used = {name for name in words.names if f'"{name}"' in warmup.program.source}
        assert all(name in warmup.document.text for name in used)


def test_programs_are_short(programs):
    lines = [len(ast.unparse(ast.parse(p.program.source)).splitlines()) for p in programs]
    assert sum(lines) / len(lines) < 50
    assert max(lines) < 75


def test_skills_prefer_structures():
    rng = random.Random(5)

    def share(skill: Skill, kind: str) -> float:
        drawn = [compose(rng, write_document(rng), skill) for _ in range(60)]
        return sum(any(goal.kind == kind for goal in p.goals) for p in drawn) / len(drawn)

    assert share(Skill.TOOL_SELECTION, "declined") > share(Skill.STATE_MODIFICATION, "declined") + 0.2
    assert share(Skill.DATA_RETRIEVAL, "replied") > share(Skill.STATE_MODIFICATION, "replied") + 0.2


def test_warm_corpus_and_held_out_words_are_apart():
    for domain in DOMAINS:
        for words in (domain.things, domain.names, domain.numbers, domain.qualities, domain.acts, domain.places):
            assert not set(warm(words)) & set(held_out(words))
            assert not set(warm(words)) & set(corpus_only(words))
            assert not set(corpus_only(words)) & set(held_out(words))


def test_unseen_families_are_not_among_the_known():
    assert not set(KNOWN_SHAPES) & set(UNSEEN_SHAPES)
    rng = random.Random(1)
    labels = {warm_program(rng).program.shape for _ in range(200)}
    assert not labels & {"queue", "transfer", "find then change"}


def test_the_warm_up_keeps_clear_of_held_out_structures(programs):
    assert not any(is_held_out(p.fingerprint) for p in programs)
    assert is_held_out(warm_program(random.Random(0), held_out=True).fingerprint)


def test_every_skill_composes_every_unseen_family():
    rng = random.Random(2)
    for skill in TOOL_SKILLS:
        for shape in UNSEEN_SHAPES:
            assert play(compose(rng, write_document(rng), skill, shapes=(shape,)).source, 21) == 1.0
