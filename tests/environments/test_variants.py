"""Parameters are read and replaced in the text; nothing else of a source changes, and nothing of it runs."""

from __future__ import annotations

import pytest

from spade_environments import EnvironmentSpec, Skill, SpecError
from spade_environments.registry import find
from spade_environments.variants import parameters, skeleton, variant

SOURCE = '''from spade_environments import TextEnv

SIZE = 9
raise SystemExit("this source must not run")


class _Board(TextEnv):
    SIZE = 8


class Walk(_Board):
    """Zürich, naïve: text of more bytes than characters."""

    max_turns = 12
    SIZE = 4  # cells
    é, DEPTH = 1, 2
    SHARE: float = 0.5
    LOW = -3
    STRICT = True
    MOOD = "größer"; LAST = 7
    TABLE = (1, 2)

    def reset(self, seed):
        SIZE = 5
'''


def spec(source: str = SOURCE) -> EnvironmentSpec:
    return EnvironmentSpec(
        name="walk", source=source, skill=Skill.OPTIMIZATION, hint="a hint", provenance={"kind": "catalogue"}
    )


def test_parameters_are_the_upper_case_constants_of_the_public_class():
    assert parameters(SOURCE) == {
        "SIZE": 4,
        "SHARE": 0.5,
        "LOW": -3,
        "STRICT": True,
        "MOOD": "größer",
        "LAST": 7,
    }


def test_a_variant_replaces_exactly_the_values_asked_for():
    made = variant(spec(), SIZE=6, LOW=-10, MOOD='it\'s "so"', LAST=8, STRICT=False)
    expected = (
        SOURCE.replace("SIZE = 4", "SIZE = 6")
        .replace("LOW = -3", "LOW = -10")
        .replace('"größer"', "'it\\'s \"so\"'")
        .replace("LAST = 7", "LAST = 8")
        .replace("STRICT = True", "STRICT = False")
    )
    assert made.source == expected
    assert parameters(made.source)["MOOD"] == 'it\'s "so"'


def test_a_variant_has_another_id_and_tells_where_it_comes_from():
    made = variant(spec(), SIZE=6)
    again = variant(made, SHARE=1)
    assert len({spec().id, made.id, again.id}) == 3
    assert made.provenance == {"kind": "catalogue", "parent": spec().id, "parameters": {"SIZE": 6}}
    assert again.provenance == {"kind": "catalogue", "parent": made.id, "parameters": {"SIZE": 6, "SHARE": 1}}
    assert (made.name, made.skill, made.hint) == ("walk", Skill.OPTIMIZATION, "a hint")


def test_an_int_passes_for_a_float_and_is_written_as_one():
    assert "SHARE: float = 2.0" in variant(spec(), SHARE=2).source


def test_a_variant_without_a_change_is_the_spec_itself():
    assert variant(spec()) == spec()
    assert variant(spec(), SIZE=4).id == spec().id


def test_lines_that_end_in_carriage_returns_are_counted_right():
    source = SOURCE.replace("\n", "\r\n")
    assert variant(spec(source), SIZE=6).source == source.replace("SIZE = 4", "SIZE = 6")


def test_an_unknown_parameter_is_an_error_with_the_nearest_name():
    with pytest.raises(SpecError, match=r"walk has no parameter 'SIEZ'; did you mean SIZE\? known: SIZE, SHARE"):
        variant(spec(), SIEZ=3)
    with pytest.raises(SpecError, match="has no parameter 'max_turns'"):
        variant(spec(), max_turns=3)


@pytest.mark.parametrize(
    "change", [{"SIZE": 2.0}, {"SIZE": "2"}, {"SIZE": True}, {"STRICT": 1}, {"MOOD": 3}, {"SHARE": "x"}]
)
def test_a_value_of_another_type_is_an_error(change):
    with pytest.raises(SpecError, match="give a value of type"):
        variant(spec(), **change)


def test_a_value_that_is_not_finite_is_an_error():
    with pytest.raises(SpecError, match="give a finite number"):
        variant(spec(), SHARE=float("nan"))


def test_a_source_that_does_not_parse_or_has_no_class_is_an_error():
    with pytest.raises(SpecError, match="does not parse"):
        parameters("class (:")
    with pytest.raises(SpecError, match="found none; wanted exactly one public class"):
        parameters("x = 1")
    with pytest.raises(SpecError, match="found A, B"):
        parameters("class A(TextEnv): pass\nclass B(ToolEnv): pass")


def test_a_skeleton_is_shared_by_variants_and_by_nothing_else():
    island = find("island_liars")
    assert skeleton(island.source) == skeleton(variant(island, N_PEOPLE=12).source)
    assert skeleton(island.source) != skeleton(island.source.replace("lies = (", "lies = not ("))
