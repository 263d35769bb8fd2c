"""Signatures to JSON Schema and back."""

import enum
from typing import Dict, List, Literal, Optional  # noqa: UP035 (what designed code may write)

import pytest

from spade_environments import ContractError, tool
from spade_environments.inside.schema import bind_arguments, tool_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(enum.Enum):
    HOME = (0, 0)


class Tools:
    @tool
    def paint(
        self,
        name: str,
        count: int,
        share: float = 0.5,
        wet: bool = False,
        colour: Colour = Colour.RED,
        size: Literal["S", "L"] = "S",
        tags: list[str] | None = None,
        extra: Optional[dict[str, int]] = None,  # noqa: UP045
    ):
        """Paint."""

    @tool
    def mix(
        self,
        colours: list[Colour],
        where: dict[str, Colour | None],
        price: Optional[float] = None,  # noqa: UP045
        code: int | Colour = 1,
        flag: Literal[1, True] = 1,
        things: List = [],  # noqa: UP006, B006
        names: Dict = {},  # noqa: UP006, B006
    ):
        """Mix."""

    @tool
    def paired(self, place: Place):
        """Choices that JSON has no plain value for."""

    @tool
    def raw(self, name: Literal[b"x"]):
        """Bytes."""

    @tool
    def untyped(self, name):
        """No type."""

    @tool
    def odd(self, name: set):
        """A type that JSON lacks."""

    @tool
    def star(self, *names: str):
        """Many."""


def test_every_supported_type_has_its_schema():
    schema = tool_schema(Tools.paint)
    assert schema["required"] == ["name", "count"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "wet": {"type": "boolean"},
        "colour": {"enum": ["red", "blue"]},
        "size": {"enum": ["S", "L"]},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "extra": {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}]},
    }


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (Tools.untyped, "needs a type"),
        (Tools.odd, "has type"),
        (Tools.star, "plain named"),
        (Tools.paired, r"parameter place has the choice \(0, 0\)"),
        (Tools.raw, "parameter name has the choice b'x'"),
    ],
)
def test_a_parameter_without_a_schema_is_refused_by_name(method, told):
    with pytest.raises(ContractError, match=told):
        tool_schema(method)


def test_arguments_come_back_typed_with_defaults_filled_in():
    bound = bind_arguments(Tools.paint, {"name": "x", "count": 1, "colour": "blue", "share": 1})
    assert bound["colour"] is Colour.BLUE
    assert (bound["share"], type(bound["share"])) == (1.0, float)
    assert (bound["wet"], bound["size"], bound["tags"]) == (False, "S", None)


def test_members_and_floats_are_built_wherever_they_stand():
    given = {"colours": ["red", "blue"], "where": {"a": "red", "b": None}, "price": 2, "code": 7, "flag": True}
    bound = bind_arguments(Tools.mix, given)
    assert bound["colours"] == [Colour.RED, Colour.BLUE]
    assert bound["where"] == {"a": Colour.RED, "b": None}
    assert (type(bound["price"]), bound["code"], bound["flag"]) == (float, 7, True)
    assert bind_arguments(Tools.mix, {**given, "code": "blue"})["code"] is Colour.BLUE
    assert bind_arguments(Tools.mix, {**given, "flag": 1})["flag"] is not True


def test_a_bare_list_or_dict_of_typing_is_as_the_builtin():
    properties = tool_schema(Tools.mix)["properties"]
    assert (properties["things"], properties["names"]) == ({"type": "array"}, {"type": "object"})
