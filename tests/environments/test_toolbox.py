import json

import msgspec
import pytest

from spade_environments import wire
from spade_environments.toolbox import toolbox_of


def declared(name="act", description="Act.", schema=None):
    text = json.dumps(schema or {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    return wire.ToolReply(name=name, description=description, parameters=msgspec.Raw(text.encode()))


def test_episodes_that_declare_the_same_tools_share_them():
    assert toolbox_of([declared()]) is toolbox_of([declared()])


@pytest.mark.parametrize(
    "other", [{"name": "go"}, {"description": "Go."}, {"schema": {"type": "object", "properties": {}}}]
)
def test_any_other_word_makes_other_tools(other):
    assert toolbox_of([declared()]) is not toolbox_of([declared(**other)])


def test_descriptions_are_cleaned_and_schemas_checked():
    assert toolbox_of([declared(description="a\x1bb")]).tools[0].description == "ab"
    with pytest.raises(wire.WireError):
        toolbox_of([declared(schema={"type": "object", "properties": {"a": {"$ref": "x"}}})])


@pytest.mark.parametrize("names", [["act", "act"], ["act", "reset"], ["get_task"], ["finish_turn"], ["hint"]])
def test_names_that_are_reserved_or_declared_twice_are_refused_on_the_hosts_side_too(names):
    with pytest.raises(wire.WireError, match="reserved, or declared twice"):
        toolbox_of([declared(name=name) for name in names])
