"""From completions to sources and hints."""

import pytest

from spade_agents.designer.parse import SUBMIT, DesignFault, Manifest, parse_design, parse_hint
from spade_agents.designer.requests import OutputForm
from spade_agents.trajectory import BrokenCall, Completion
from spade_environments import Skill, ToolCall


def called(name=SUBMIT.name, /, *, count=1, **arguments):
    return Completion(text="Here.", calls=(ToolCall(name=name, arguments=arguments),) * count, finish="calls")


def test_the_one_block_is_the_source():
    parsed = parse_design(Completion(text="Here it is.\n```python\nx = 1\n```\nEnjoy."))
    assert (parsed.source, parsed.fault) == ("x = 1\n", None)


@pytest.mark.parametrize(
    ("completion", "fault"),
    [
        (Completion(text="```python\nx = 1\n```", finish="length"), DesignFault.TRUNCATED),
        (Completion(text="  \n"), DesignFault.EMPTY),
        (Completion(text="I would rather not."), DesignFault.NO_BLOCK),
        (Completion(text="```python\nx = 1\n"), DesignFault.UNCLOSED_BLOCK),
        (Completion(text='```json\n{"domain": "x"}\n```'), DesignFault.NO_BLOCK),
        (Completion(text="```python\nx\n```\n```json\n{}\n```\n```json\n{}\n```"), DesignFault.BAD_MANIFEST),
        (Completion(text="```python\nx\n```\n```json\n{'domain'}\n```"), DesignFault.BAD_MANIFEST),
        (Completion(text='```python\nx\n```\n```json\n{"difficulty": 7}\n```'), DesignFault.BAD_MANIFEST),
        (Completion(text='```python\nx\n```\n```json\n["a"]\n```'), DesignFault.BAD_MANIFEST),
        (Completion(text="```python\n" + "x = 1\n" * 34_000 + "```"), DesignFault.TOO_LARGE),
        (called(), DesignFault.BAD_CALL),
        (called(source=""), DesignFault.BAD_CALL),
        (called(source="x", skill="cooking"), DesignFault.BAD_CALL),
        (called(source="x", colour="red"), DesignFault.BAD_CALL),
        (called("run", source="x"), DesignFault.BAD_CALL),
        (called(source="x" * 200_000), DesignFault.TOO_LARGE),
        (called(source="x", count=2), DesignFault.SEVERAL_CALLS),
        (Completion(text="", broken=(BrokenCall(kind="not_json", message="no JSON"),)), DesignFault.BAD_CALL),
        (Completion(text="```python\nx\n```\n```python\ny\n```"), DesignFault.SEVERAL_BLOCKS),
    ],
)
def test_a_completion_without_a_source_says_why(completion, fault):
    parsed = parse_design(completion)
    assert parsed.source is None
    assert parsed.fault is fault
    assert parsed.repair


def test_a_hint_is_one_line_and_a_cut_one_is_none():
    assert parse_hint(Completion(text=" look\n first ")) == "look first"
    assert parse_hint(Completion(text="")) is None
    assert parse_hint(Completion(text="look", finish="length")) is None


def test_a_manifest_tells_domain_and_difficulty_and_may_hold_more():
    text = '```python\nx = 1\n```\n```json\n{"domain": " a  harbour ", "difficulty": 0, "note": []}\n```'
    parsed = parse_design(Completion(text=text))
    assert (parsed.source, parsed.manifest) == ("x = 1\n", Manifest(domain="a harbour", difficulty=0.0))


def test_a_call_hands_in_source_and_manifest():
    parsed = parse_design(called(source="x = 1", skill="causal inference", domain="kilns", difficulty=0.25))
    assert (parsed.source, parsed.form) == ("x = 1\n", OutputForm.CALL)
    assert parsed.manifest == Manifest(skill=Skill.CAUSAL_INFERENCE, domain="kilns", difficulty=0.25)


def test_where_there_is_a_block_calls_beside_it_are_not_looked_at():
    completion = Completion(text="```python\nx = 1\n```", calls=called(source="y").calls, finish="calls")
    assert parse_design(completion).source == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nx = 1\n```\nThis program teaches", None),
        ('```python\nx = 1\n```\n```json\n{"domain": "har', None),
        ("```python\nx = 1\n```\n```python\nx = 2\n```\nAnd a third", DesignFault.SEVERAL_BLOCKS),
        ("```python\nx = 1\ny =", DesignFault.TRUNCATED),
        ("Let me think about it first. A harbour", DesignFault.TRUNCATED),
        ('```json\n{"domain": "harbour"}\n```\n```python\nx =', DesignFault.TRUNCATED),
        ("", DesignFault.TRUNCATED),
    ],
)
def test_where_that_is_allowed_a_text_that_was_cut_behind_its_block_still_holds_its_program(text, fault):
    cut = Completion(text=text, finish="length")
    parsed = parse_design(cut, cut_after_block=True)
    assert (parsed.source, parsed.fault) == ("x = 1\n" if fault is None else None, fault)
    assert parse_design(cut).fault is DesignFault.TRUNCATED


def test_a_call_that_was_cut_is_never_whole():
    cut = Completion(text="Here.", calls=called(source="x").calls, finish="length")
    assert parse_design(cut, cut_after_block=True).fault is DesignFault.TRUNCATED
