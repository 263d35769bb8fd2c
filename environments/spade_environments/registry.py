"""Registry: the hand-written catalogue, and finding an environment by name or path."""

from __future__ import annotations

import difflib
import functools
from dataclasses import replace
from pathlib import Path

from spade_environments.loader import load_spec
from spade_environments.spec import EnvironmentSpec, Skill, SpecError
from spade_environments.variants import skeleton

__all__ = ["catalogue", "find", "is_catalogue"]

_FOLDER = Path(__file__).parent / "catalogue"


@functools.cache
def catalogue() -> tuple[EnvironmentSpec, ...]:
    """Every hand-written environment, in order of skill; their provenance kind is `catalogue`."""
    paths = sorted(path for path in _FOLDER.glob("*.py") if not path.name.startswith("_"))
    specs = [replace(load_spec(path), provenance={"kind": "catalogue"}) for path in paths]
    order = {skill: position for position, skill in enumerate(Skill)}
    return tuple(sorted(specs, key=lambda spec: (order[spec.skill], spec.name)))


def find(name_or_path: str | Path) -> EnvironmentSpec:
    """An environment by catalogue name, or by the path of a source file (what ends in `.py` or holds a separator).

    Raises:
        SpecError: no such name (with the nearest one) or no readable file.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith(".py") or "/" in text or "\\" in text:
        return load_spec(name_or_path)
    specs = {spec.name: spec for spec in catalogue()}
    if text in specs:
        return specs[text]
    close = difflib.get_close_matches(text.lower().replace("-", "_").replace(" ", "_"), specs, n=1, cutoff=0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    raise SpecError(f"no environment is named {text!r}; {meant}give a path ending in .py or one of: {', '.join(specs)}")


def is_catalogue(spec: EnvironmentSpec) -> bool:
    """Whether the source of `spec` is a catalogue source or a variant of one, whatever its provenance claims."""
    try:
        return skeleton(spec.source) in _skeletons()
    except SpecError:
        return False


@functools.cache
def _skeletons() -> frozenset[str]:
    return frozenset(skeleton(spec.source) for spec in catalogue())
