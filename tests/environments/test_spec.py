"""EnvironmentSpec: identity and JSON."""

import hashlib
import json

import pytest

from spade_environments import EnvironmentSpec, Skill, SpecError

SPEC = EnvironmentSpec(name="x", source="print()\n", skill=Skill.DATA_RETRIEVAL, hint="look first")


def test_the_id_is_the_hash_of_the_source_and_of_nothing_else():
    assert SPEC.id == hashlib.sha256(b"print()\n").hexdigest()
    assert SPEC.with_hint(None).id == SPEC.id
    assert SPEC.with_source("pass\n", parent=SPEC.id).id != SPEC.id


def test_json_goes_out_and_comes_back():
    assert EnvironmentSpec.from_json(SPEC.to_json()) == SPEC
    assert EnvironmentSpec.from_json(SPEC.to_json(source=False), source=SPEC.source) == SPEC


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"colour": 1}, "unknown field 'colour'"),
        ({"source": "pass\n"}, "hash"),
        ({"skill": "flying"}, "skill"),
        ({"id": 5}, "cannot be read"),
        ({"difficulty": 7}, "difficulty 7; wanted"),
        ({"name": " "}, "wanted a name that is not empty"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(change, told):
    with pytest.raises(SpecError, match=told):
        EnvironmentSpec.from_json(json.dumps({**json.loads(SPEC.to_json()), **change}))


@pytest.mark.parametrize("text", ["{", '{"provenance": ' + '{"a":' * 50_000])
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(SpecError, match="cannot be read"):
        EnvironmentSpec.from_json(text)
