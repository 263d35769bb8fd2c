"""Environments are found by name or path, with the nearest name where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import spade_environments.catalogue
from spade_environments import SpecError
from spade_environments.registry import catalogue, find, is_catalogue
from spade_environments.variants import variant


def test_the_catalogue_is_marked_as_such_and_holds_twelve_families():
    assert len(catalogue()) == 12
    assert all(spec.provenance == {"kind": "catalogue"} for spec in catalogue())
    assert len({spec.id for spec in catalogue()}) == 12


def test_a_name_finds_a_family_of_the_catalogue():
    assert find("die_walk").name == "die_walk"


def test_a_path_finds_a_loose_file_even_among_the_catalogue_sources():
    path = Path(spade_environments.catalogue.__file__).parent / "die_walk.py"
    assert find(path).id == find(str(path)).id == find("die_walk").id
    assert find(path).provenance == {"kind": "file"}


def test_an_unknown_name_is_an_error_with_the_nearest_one():
    with pytest.raises(SpecError, match=r"no environment is named 'Die-Walks'; did you mean die_walk\? give a path"):
        find("Die-Walks")
    with pytest.raises(SpecError, match="there is no file"):
        find("nowhere.py")


def test_a_source_is_of_the_catalogue_by_its_text_and_not_by_its_claim():
    island = find("island_liars")
    assert is_catalogue(variant(island, N_PEOPLE=12))
    assert is_catalogue(replace(island, provenance={}))
    assert not is_catalogue(replace(island, source=island.source + "\nprint('more')\n"))
    assert not is_catalogue(replace(island, source="class ("))
