"""What a command line names as an environment: a catalogue name, a file, or a folder of them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spade_agents.errors import UsageError
from spade_environments import EnvironmentSpec, SpecError
from spade_environments.loader import load_spec, read_source
from spade_environments.registry import find

__all__ = ["NamedSpec", "one_spec", "specs_at"]

_POOLED_SOURCE = "environment.py"
_POOLED_SPEC = "spec.json"


class NamedSpec(NamedTuple):
    """A spec, and where a person finds it."""

    label: str
    spec: EnvironmentSpec
    path: Path | None


def one_spec(target: str) -> NamedSpec:
    """The one environment that `target` names.

    Raises:
        UsageError: a folder that holds several or none.
        SpecError: nothing of that name, or a file that cannot be read.
    """
    found = specs_at(target)
    if len(found) != 1:
        raise UsageError(f"{target} holds {len(found)} environments; name one of them: {found[0].label}, …")
    return found[0]


def specs_at(target: str) -> list[NamedSpec]:
    """Every environment under `target`, by path.

    Raises:
        UsageError: a folder without an environment in it.
        SpecError: nothing of that name, or a file that cannot be read.
    """
    path = _of_a_run(Path(target)) if target else Path()
    if not target or not path.is_dir():
        return [NamedSpec(target, _found(target), path if path.exists() else None)]
    found = [
        NamedSpec(str(source), _read(source), source) for source in sorted(path.rglob("*.py")) if _has_spec(source)
    ]
    if not found:
        raise UsageError(f"{path} holds no environment: wanted NAME.py with NAME.spec.json beside it, or a run's pool")
    return found


def _found(target: str) -> EnvironmentSpec:
    try:
        return find(target)
    except SpecError as error:
        file = Path(f"{target}.py")
        if target and file.is_file():
            raise SpecError(f"no environment is named {target!r}, but there is the file {file}: give that") from error
        raise


def _of_a_run(path: Path) -> Path:
    """The folder of `RUN/ID`, or of `RUN/START-OF-ID`, in the run's pool; any other path as it is."""
    for pool in (path.parent / "environments", path.parent):
        if not path.exists() and (pool / "pool.json").exists():
            found = [folder for folder in pool.iterdir() if folder.is_dir() and folder.name.startswith(path.name)]
            if len(found) > 1:
                raise UsageError(f"{len(found)} environments of {pool} begin with {path.name}; give more of the id")
            if found:
                return found[0]
    return path


def _has_spec(source: Path) -> bool:
    return source.with_suffix(".spec.json").exists() or _pooled_spec(source) is not None


def _read(source: Path) -> EnvironmentSpec:
    pooled = _pooled_spec(source)
    if pooled is None:
        return load_spec(source)
    try:
        return EnvironmentSpec.from_json(read_source(pooled), source=read_source(source))
    except SpecError as error:
        raise SpecError(f"{source.parent}: {error}") from error


def _pooled_spec(source: Path) -> Path | None:
    beside = source.with_name(_POOLED_SPEC)
    return beside if source.name == _POOLED_SOURCE and beside.exists() else None
