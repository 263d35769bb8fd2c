import math
from types import MappingProxyType
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spade_environments import Reply, ToolCall, ToolSpec
from spade_environments.inside.schema import tool_schema, type_schema
from spade_environments.validation import ArgumentValidator, CallErrorKind, check_reply, clean_text

SPEC = ToolSpec(
    name="book",
    description="Book a table.",
    parameters={
        "type": "object",
        "properties": {
            "place": {"type": "string"},
            "guests": {"type": "integer"},
            "share": {"type": "number"},
            "outside": {"type": "boolean"},
            "meal": {"enum": ["lunch", "dinner"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["place"],
        "additionalProperties": False,
    },
)
VALIDATOR = ArgumentValidator([SPEC])

GOOD = {
    "the least": {},
    "an integer": {"guests": 3},
    "an integer for a number": {"share": 3},
    "a member of an enum": {"meal": "lunch"},
    "a list": {"tags": ["a", "b"]},
    "an object": {"extra": {"a": 1}},
    "null where it may be": {"note": None},
    "text that happens to be JSON where text is wanted": {"note": '{"a": 1}'},
    "NUL in text": {"note": "a\x00b"},
}
BAD = {
    "a string for an integer": ({"guests": "3"}, "wrong_type"),
    "an integral float for an integer": ({"guests": 3.0}, "wrong_type"),
    "true for an integer": ({"guests": True}, "wrong_type"),
    "true for a number": ({"share": True}, "wrong_type"),
    "null for a string": ({"place": None}, "wrong_type"),
    "a number for text or null": ({"note": 5}, "wrong_type"),
    "a number inside a list of text": ({"tags": ["a", 1]}, "wrong_type"),
    "a tuple": ({"tags": ("a",)}, "wrong_type"),
    "a set": ({"tags": {"a"}}, "wrong_type"),
    "bytes": ({"note": b"x"}, "wrong_type"),
    "a name that is no string": ({"extra": {1: 1}}, "wrong_type"),
    "outside an enum": ({"meal": "brunch"}, "wrong_value"),
    "an extra argument": ({"colour": "red"}, "unexpected_argument"),
    "a list as text": ({"tags": '["a"]'}, "double_encoded"),
    "an object as text": ({"extra": '{"a": 1}'}, "double_encoded"),
    "NaN": ({"share": math.nan}, "not_finite"),
    "infinity deep inside": ({"extra": {"a": math.inf}}, "not_finite"),
    "an integer of 400 digits": ({"guests": 10**400}, "not_finite"),
    "a text of 1 MB": ({"note": "x" * 10**6}, "too_long"),
    "a list of 100,000": ({"tags": ["a"] * 100_000}, "too_long"),
    "half a surrogate pair": ({"note": "a\ud800"}, "not_text"),
}


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("name", GOOD)
def test_a_well_formed_call_passes(name):
    assert VALIDATOR.check(ToolCall(name="book", arguments={"place": "x", **GOOD[name]})) is None


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_argument_is_named_by_kind(name):
    arguments, kind = BAD[name]
    error = VALIDATOR.check(ToolCall(name="book", arguments={"place": "x", **arguments}))
    assert error is not None
    assert error.kind == kind
    assert len(error.text) < 300
    error.text.encode()


def test_a_missing_argument_is_named():
    error = VALIDATOR.check(ToolCall(name="book", arguments={"guests": 1}))
    assert error == (CallErrorKind.MISSING_ARGUMENT, "the call: 'place' is missing")


def test_arguments_that_are_a_string_are_told_apart_by_what_they_hold():
    assert VALIDATOR.check(ToolCall(name="book", arguments='{"place": "x"}')).kind == "double_encoded"
    assert VALIDATOR.check(ToolCall(name="book", arguments="place")).kind == "not_an_object"
    assert VALIDATOR.check(ToolCall(name="book", arguments=None)).kind == "not_an_object"
    assert VALIDATOR.check(ToolCall(name="book", arguments=[1])).kind == "not_an_object"


def test_arguments_may_be_any_mapping():
    assert VALIDATOR.check(ToolCall(name="book", arguments=MappingProxyType({"place": "x"}))) is None
    assert (
        VALIDATOR.check(ToolCall(name="book", arguments=MappingProxyType({"tags": ["x"]}))).kind == "missing_argument"
    )


def test_arguments_nested_beyond_reason_are_refused_unread():
    assert VALIDATOR.check(ToolCall(name="book", arguments={"place": "x", "extra": deep(100_000)})).kind == "too_long"


@pytest.mark.parametrize("name", ["cook", "", "x" * 10**6, None, 5, "bo\u202eok", "\ud800"])
def test_an_unknown_tool_is_answered_with_those_there_are(name):
    error = VALIDATOR.check(ToolCall(name=name, arguments={}))
    assert error.kind == "unknown_tool"
    assert "the tools are book" in error.text
    assert len(error.text) < 200
    error.text.encode()


def test_a_locked_tool_is_unknown():
    assert VALIDATOR.check(ToolCall(name="book", arguments={"place": "x"}), available=[]).kind == "unknown_tool"


def test_a_signature_with_an_enum_and_an_optional_list_validates_as_python_reads_it():
    def move(self, to: str, steps: int = 1, via: list[str] | None = None) -> str:
        """Move."""

    validator = ArgumentValidator([ToolSpec(name="move", description="", parameters=tool_schema(move))])
    assert validator.check(ToolCall(name="move", arguments={"to": "x", "via": None})) is None
    assert validator.check(ToolCall(name="move", arguments={"to": "x", "via": "[]"})).kind == "double_encoded"


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (list[int] | None, [1, "2"], "argument 'x' is a string ('2'); wanted integer"),
        (Literal["small", 2] | None, "big", "argument 'x' is a string ('big'); wanted \"small\" or 2 or null"),
        (int | list[Literal["a"]], ["b"], "argument 'x' is 'b'; use one of \"a\""),
    ],
)
def test_an_option_that_nearly_fits_is_told_by_what_is_wrong_in_it(annotation, value, told):
    parameters = {"type": "object", "properties": {"x": type_schema(annotation, "x")}}
    validator = ArgumentValidator([ToolSpec(name="go", description="Go.", parameters=parameters)])
    assert validator.check(ToolCall(name="go", arguments={"x": value})).text == told


def test_a_reply_is_text_of_a_bounded_length():
    assert check_reply("hello") is None
    assert check_reply("x" * 10**6).kind == "too_long"
    assert check_reply("\udfff").kind == "not_text"
    assert check_reply(None).kind == "wrong_type"


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("plain", "plain"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\x00\x1b[2J", "[2J"),
        ("a\u202eb\u2066c\u200fd", "abcd"),
        ("é\U0001f600", "é\U0001f600"),
    ],
)
def test_cleaning_strips_controls_and_leaves_the_rest(dirty, clean):
    assert clean_text(dirty) == clean


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(
    ToolCall,
    name=st.sampled_from(["get_order", "cancel_order", "refund_order"]) | st.text(max_size=5) | anything,
    arguments=st.dictionaries(st.sampled_from(["order_id", "reasons", "notify", "days", "x"]), anything) | anything,
)
actions = calls | st.builds(Reply, text=st.text() | anything)


PLAIN = {
    "type": "object",
    "properties": {name: {"type": name} for name in ("string", "integer", "number", "boolean")},
    "required": ["string"],
    "additionalProperties": False,
}


@settings(deadline=None, database=None)
@given(
    st.dictionaries(st.sampled_from([*PLAIN["properties"], "x"]), st.text(max_size=3) | st.integers() | st.booleans())
)
def test_the_quick_check_of_plain_arguments_decides_as_the_library_does(arguments):
    quick = ArgumentValidator([ToolSpec(name="f", description="", parameters=PLAIN)])
    slow = ArgumentValidator([ToolSpec(name="f", description="", parameters={**PLAIN, "title": "f"})])
    call = ToolCall(name="f", arguments=arguments)
    assert quick.check(call) == slow.check(call)


@pytest.mark.asyncio(loop_scope="module")
async def test_no_action_raises_and_none_pays(sandbox, desk):
    async with await sandbox.open(desk) as env:

        async def tried(action):
            await env.reset(3)
            result = await env.step(action)
            assert result.reward == 0.0
            assert isinstance(result.observation.text, str)
            result.observation.text.encode()

        found = []

        @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(actions)
        def collect(action):
            found.append(action)

        collect()
        for action in found:
            await tried(action)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_malformed_call_never_reaches_the_child(sandbox, make_spec):
    body = (
        "class Count(ToolEnv):\n    def setup(self): self.state = {'n': 0}\n"
        "    @tool\n    def bump(self, by: int) -> int:\n        '''Add.'''\n"
        "        self.state['n'] += 1\n        return self.state['n']\n"
        "    def goals(self): return [Goal('state', 'Bump.', lambda s, c, r: len(c) == 1)]\n"
        "    def solution(self): return [[Call('bump', by=1)]]\n"
    )
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        for arguments in ({}, {"by": "1"}, {"by": 1, "x": 2}, {"by": math.nan}, '{"by": 1}'):
            result = await env.step(ToolCall(name="bump", arguments=arguments, id="c"))
            assert result.observation.text.startswith("Error: ")
            assert (result.observation.role, result.observation.call_id) == ("tool", "c")
            assert set(result.info) == {"error"}
        assert (await env.step(ToolCall(name="bump", arguments={"by": 1}))).observation.text == "1"
        assert (await env.step(Reply(text=""))).reward == 1.0
