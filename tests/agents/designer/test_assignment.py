"""What slots are asked for."""

import random
from collections import Counter

import pytest

from spade_agents.designer.assignment import Assignment, AssignmentSettings
from spade_agents.designer.corpus import Corpus, Document
from spade_agents.designer.memory import Memory
from spade_agents.designer.requests import DOMAINS, DesignRequest, TextForm, ToolVariant, drawn_variant
from spade_agents.designer.targets import TargetSettings
from spade_environments import Skill
from tests.agents.designer.test_memory import record

CORPUS = Corpus(documents=tuple(Document(id=f"d{n}", text=f"text {n} and more", domain="boats") for n in range(5)))


def requests(assignment: Assignment, skill: Skill, count: int) -> list[DesignRequest]:
    return [assignment.request(skill, position=n, seed=n, memory_seed=n) for n in range(count)]


def test_the_compact_style_draws_document_and_memory_alone():
    memory = Memory.of([record(n) for n in range(5)])
    assignment = Assignment(settings=AssignmentSettings(), style="compact", corpus=CORPUS, words=2, memory=memory)
    (found,) = requests(assignment, Skill.DATA_RETRIEVAL, 1)
    document = CORPUS.at(0)
    assert found == DesignRequest(
        skill=Skill.DATA_RETRIEVAL,
        document=document.words(2),
        document_id=document.id,
        corpus=CORPUS.checksum[:12],
        domain="boats",
        seeds=memory.seeds(Skill.DATA_RETRIEVAL, random.Random(0)),
    )


def test_tool_environments_get_a_domain_and_a_variant_by_their_weights():
    found = requests(Assignment(settings=AssignmentSettings(), style="full"), Skill.TOOL_SELECTION, 700)
    domains, variants = Counter(r.domain for r in found), Counter(r.variant for r in found)
    assert set(domains) == set(DOMAINS)
    assert min(domains.values()) > 40
    drawn = Counter(drawn_variant(random.Random(n)) for n in range(7000))
    assert drawn[ToolVariant.EXECUTE] / 7000 == pytest.approx(3 / 7, abs=0.03)
    assert drawn[ToolVariant.READ_THEN_WRITE] / 7000 == pytest.approx(2 / 7, abs=0.03)
    assert set(variants) == set(ToolVariant)
    assert {r.form for r in found} == {None}


def test_text_environments_get_a_form_by_its_share_and_keep_the_documents_domain():
    settings = AssignmentSettings(single_turn=0.25)
    assignment = Assignment(settings=settings, style="full", corpus=CORPUS)
    found = requests(assignment, Skill.OPTIMIZATION, 400)
    assert Counter(r.form for r in found)[TextForm.SINGLE_TURN] / 400 == pytest.approx(0.25, abs=0.07)
    assert {r.domain for r in found} == {"boats"}
    assert {r.variant for r in found} == {None}


def test_a_share_of_the_slots_can_go_without_a_document():
    assignment = Assignment(settings=AssignmentSettings(grounded=0.8), style="compact", corpus=CORPUS)
    found = requests(assignment, Skill.OPTIMIZATION, 400)
    assert sum(bool(r.document_id) for r in found) / 400 == pytest.approx(0.8, abs=0.06)


def test_the_target_follows_memory_where_it_is_asked_to():
    memory = Memory.of([record(1, win_rate=1.0)])
    follows = AssignmentSettings(target=TargetSettings(follows=True))
    for settings, target in ((AssignmentSettings(), 0.5), (follows, 0.75)):
        assignment = Assignment(settings=settings, style="full", memory=memory)
        assert requests(assignment, Skill.DATA_RETRIEVAL, 1)[0].target == target


def test_a_share_beyond_1_is_refused():
    with pytest.raises(ValueError, match="grounded is 2; wanted a share"):
        AssignmentSettings(grounded=2.0)
